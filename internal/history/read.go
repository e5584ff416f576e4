package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Read reads the files of a history, or of directories all that end in Suffix, and
// returns the calls of all clients in the order of Begin. A last line that was cut
// short by a kill is as if it had not been written.
func Read(paths ...string) ([]*Call, error) {
	// Most names occur again and again, and each line decodes them anew.
	names := make(map[string]string)
	same := func(s string) string {
		if known, ok := names[s]; ok {
			return known
		}
		names[s] = s
		return s
	}
	var calls []*Call
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		for _, file := range files {
			more, err := readFile(file, same)
			if err != nil {
				return nil, fmt.Errorf("history: %s: %w", file, err)
			}
			calls = append(calls, more...)
		}
	}
	sortCalls(calls)
	return calls, nil
}

func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	return filepath.Glob(filepath.Join(path, "*"+Suffix))
}

func readFile(path string, same func(string) string) ([]*Call, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var calls []*Call
	var client string
	in := bufio.NewReaderSize(file, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return calls, nil // text is a line that was cut
		}
		if err != nil {
			return nil, err
		}
		var l line
		if err := json.Unmarshal(bytes.TrimSpace(text), &l); err != nil {
			return nil, err
		}
		switch {
		case l.Client != "":
			client = l.Client
		case l.Verb != "":
			if l.Number != len(calls)+1 {
				return nil, fmt.Errorf("call %d follows call %d", l.Number, len(calls))
			}
			calls = append(calls, l.call(client, same))
		case l.Number < 1 || l.Number > len(calls):
			return nil, fmt.Errorf("call %d ended before it began", l.Number)
		default:
			c := calls[l.Number-1]
			if len(l.Enqueued) > len(c.New) {
				return nil, fmt.Errorf("call %d enqueued %d jobs and was given %d", l.Number, len(c.New), len(l.Enqueued))
			}
			l.end(c, same)
		}
	}
}

func sortCalls(calls []*Call) {
	slices.SortFunc(calls, func(a, b *Call) int {
		return cmp.Or(a.Begin.Compare(b.Begin), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Number, b.Number))
	})
}
