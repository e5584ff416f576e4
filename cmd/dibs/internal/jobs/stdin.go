package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/spf13/cobra"
)

// firstBytes reads the beginning of stdin: nothing if it is empty, a terminal or closed. Only
// the end of stdin shows that it is empty, so firstBytes waits, and prints that it does. Bytes
// of a pipe are lost to other readers; the position in a file is restored.
func (a *app) firstBytes(ctx context.Context) ([]byte, error) {
	if a.InTTY {
		return nil, nil
	}
	first := make([]byte, 64<<10)
	var n int
	var err error
	done := make(chan struct{})
	go func() {
		n, err = io.ReadAtLeast(a.Stdin, first, 1)
		close(done)
	}()
	note := time.After(time.Second)
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-note:
			fmt.Fprintln(a.Stderr, "dibs: waiting for what comes on stdin, or for its end; if nothing is to come, give null as the payload, or </dev/null")
		}
	}
	if f, ok := a.Stdin.(io.Seeker); ok {
		_, _ = f.Seek(-int64(n), io.SeekCurrent) // fails on a pipe
	}
	for _, nothing := range []error{io.EOF, os.ErrClosed, os.ErrInvalid, syscall.EBADF} {
		if errors.Is(err, nothing) {
			return nil, nil
		}
	}
	return first[:n], err
}

// refuseInput is the error for input that no flag explains, and that would be ignored.
func (a *app) refuseInput(cmd *cobra.Command) error {
	const instead = "if it is not meant, give null as the payload"
	first, err := a.firstBytes(cmd.Context())
	switch {
	case cmd.Context().Err() != nil:
		return err
	case err != nil:
		return &cmdline.HintError{Err: cmdline.Usagef(cmd, "stdin cannot be read; nothing was enqueued: %w", err), Next: instead}
	case len(first) == 0:
		return nil
	}
	return &cmdline.HintError{
		Err:  cmdline.Usagef(cmd, "stdin has data, but nothing says what it is; nothing was enqueued"),
		Next: likelyFormat(first) + "; " + instead,
	}
}

// likelyFormat returns the flag that fits the beginning of the input.
func likelyFormat(first []byte) string {
	lines := strings.Split(strings.TrimPrefix(string(first), "\ufeff"), "\n")
	if len(lines) > 1 {
		lines = lines[:len(lines)-1] // the last line may be incomplete
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
		len(lines) == 1 && strings.HasPrefix(text, "{"): // a line longer than the part that was read
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
	job, err := wire.ReadJob([]byte(line), dibs.NewJob{})
	return err == nil && job.Payload != nil
}

// isCSV reports whether all rows have the same number of columns, at least two.
func isCSV(text string) bool {
	next, err := readCSV(cmdline.NewInput(bytes.NewReader([]byte(text+"\n"))), dibs.NewJob{})
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
