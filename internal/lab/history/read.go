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

// Read reads the files of a history, and from each directory all files that end in Suffix.
// It returns the calls of all clients in the order of Begin. A last line that a kill cut
// short counts as not written.
func Read(paths ...string) ([]*Call, error) { return new(Reader).Read(paths...) }

// Reader reads a history while it grows: each Read continues where the previous one stopped.
type Reader struct {
	files map[string]*fileRecords
	names map[string]string // one copy of each name, to save memory
}

// fileRecords holds what has been read from a file.
type fileRecords struct {
	client string
	calls  []*Call
	bytes  int64
}

// Read reads the lines that were added since, and returns all calls, like the package's Read.
func (r *Reader) Read(paths ...string) ([]*Call, error) {
	if r.files == nil {
		r.files, r.names = make(map[string]*fileRecords), make(map[string]string)
	}
	var calls []*Call
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		for _, file := range files {
			if r.files[file] == nil {
				r.files[file] = &fileRecords{}
			}
			if err := r.files[file].read(file, r.shareString); err != nil {
				return nil, fmt.Errorf("history: %s: %w", file, err)
			}
			calls = append(calls, r.files[file].calls...)
		}
	}
	sortCalls(calls)
	return calls, nil
}

func (r *Reader) shareString(s string) string {
	if known, ok := r.names[s]; ok {
		return known
	}
	r.names[s] = s
	return s
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

func (r *fileRecords) read(path string, same func(string) string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // nothing was written
	if _, err := file.Seek(r.bytes, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(file, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // text is a line that was cut short or is being written
		}
		if err != nil {
			return err
		}
		if err := r.add(text, same); err != nil {
			return err
		}
		r.bytes += int64(len(text))
	}
}

func (r *fileRecords) add(text []byte, same func(string) string) error {
	var l line
	if err := json.Unmarshal(bytes.TrimSpace(text), &l); err != nil {
		return err
	}
	switch {
	case l.Client != "":
		r.client = l.Client
	case l.Verb != "":
		if l.Number != len(r.calls)+1 {
			return fmt.Errorf("call %d follows call %d", l.Number, len(r.calls))
		}
		r.calls = append(r.calls, l.call(r.client, same))
	case l.Number < 1 || l.Number > len(r.calls):
		return fmt.Errorf("call %d ended before it began", l.Number)
	default:
		c := r.calls[l.Number-1]
		if len(l.Enqueued) > len(c.New) {
			return fmt.Errorf("call %d enqueued %d jobs and was given %d", l.Number, len(c.New), len(l.Enqueued))
		}
		l.end(c, same)
	}
	return nil
}

func sortCalls(calls []*Call) {
	slices.SortFunc(calls, func(a, b *Call) int {
		return cmp.Or(a.Begin.Compare(b.Begin), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Number, b.Number))
	})
}
