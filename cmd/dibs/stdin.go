package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/spf13/cobra"
)

// firstBytes is how long a pipe without data is waited for: whoever feeds it starts at the
// same time as this command.
const firstBytes = 100 * time.Millisecond

// unread returns the beginning of what stdin holds, and nothing where that is not known
// at once. What a pipe gave is lost to others.
func (a *app) unread() []byte {
	f, ok := a.stdin.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil // it is closed
	}
	first := make([]byte, 64<<10)
	n := 0
	switch mode := info.Mode(); {
	case mode.IsRegular():
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil
		}
		n, _ = f.ReadAt(first, at) // what cannot be read is no input
	case mode&(fs.ModeNamedPipe|fs.ModeSocket) != 0 && readable(f, firstBytes):
		n, _ = f.Read(first)
	}
	return first[:n]
}

// refuseInput is the error for input that would be thrown away, as nothing says what it is.
func (a *app) refuseInput(cmd *cobra.Command) error {
	first := a.unread()
	if len(first) == 0 {
		return nil
	}
	return &hintError{
		err:  usagef(cmd, "stdin has data, but nothing says what it is; nothing was enqueued"),
		next: likelyFormat(first) + "; if it is not meant, give null as the payload",
	}
}

// likelyFormat says which flag fits input that begins so.
func likelyFormat(first []byte) string {
	lines := strings.Split(strings.TrimPrefix(string(first), "\ufeff"), "\n")
	if len(lines) > 1 {
		lines = lines[:len(lines)-1] // the last one may be cut off
	}
	var full []string
	for _, line := range lines[:min(len(lines), 20)] {
		if line = strings.TrimSpace(line); line != "" {
			full = append(full, line)
		}
	}
	text := strings.Join(full, "\n")
	switch {
	case all(full, isJob):
		return "it looks like lines that describe jobs: give --jobs"
	case all(full, func(line string) bool { return json.Valid([]byte(line)) }),
		len(lines) == 1 && strings.HasPrefix(text, "{"): // too long a line to see its end
		return "it looks like lines of JSON: give --jsonl; if it is one payload, give - as the payload"
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		return "it looks like one JSON text: give - as the payload"
	case isCSV(text):
		return "it looks like CSV: give --csv"
	}
	return "it looks like lines of text: give --lines"
}

func all(lines []string, is func(string) bool) bool {
	for _, line := range lines {
		if !is(line) {
			return false
		}
	}
	return len(lines) > 0
}

func isJob(line string) bool {
	job, err := parseJob([]byte(line), dibs.NewJob{})
	return err == nil && job.Payload != nil
}

// isCSV reports whether the rows have two columns or more, each as many.
func isCSV(text string) bool {
	next, err := readCSV(newInput(bytes.NewReader([]byte(text+"\n"))), dibs.NewJob{})
	if err != nil || !strings.Contains(text, ",") {
		return false
	}
	for {
		r, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil || r.err != nil:
			return false
		}
	}
}
