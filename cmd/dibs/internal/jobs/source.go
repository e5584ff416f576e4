package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// source is input that can be read twice: a file, or a pipe that the first reading
// copies to a file.
type source struct {
	file       *os.File
	pipe       io.Reader // nil if file is the input itself
	deleteCopy bool      // file is a copy that Close deletes
}

// rewindable opens the input.
func (b *bulk) rewindable(ctx context.Context) (*source, error) {
	if b.path != "" {
		file, err := openFile(b.path)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return &source{file: file}, nil
		}
		// A named pipe can be read only once.
		return spool(cmdline.Interruptible(ctx, file))
	}
	return spool(cmdline.Interruptible(ctx, b.Stdin))
}

// spool makes a source that copies a pipe to a temporary file.
func spool(pipe io.Reader) (*source, error) {
	file, err := os.CreateTemp("", "dibs-enqueue-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary copy of the input: %w", err)
	}
	// Without a name, the copy disappears with this process, even if it is killed. Windows
	// does not remove the names of open files.
	deleteCopy := os.Remove(file.Name()) != nil
	return &source{file: file, pipe: pipe, deleteCopy: deleteCopy}, nil
}

// first reads the input for the first time.
func (s *source) first() *cmdline.Input {
	if s.pipe == nil {
		return cmdline.NewInput(s.file)
	}
	return cmdline.NewInput(io.TeeReader(s.pipe, s.file))
}

// again reads the input again, after first has read all of it.
func (s *source) again() (*cmdline.Input, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the input again: %w", err)
	}
	return cmdline.NewInput(s.file), nil
}

// Close closes the file and deletes a copy.
func (s *source) Close() error {
	err := s.file.Close()
	if s.deleteCopy {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}
