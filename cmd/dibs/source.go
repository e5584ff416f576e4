package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// source is input that can be read twice: a file, or a pipe of which the first
// reading keeps a copy.
type source struct {
	file  *os.File
	pipe  io.Reader // nil if file is the input itself
	named bool      // file is a copy that still has to be deleted
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
		// A named pipe gives its lines but once.
		return spool(interruptible(ctx, file))
	}
	return spool(interruptible(ctx, b.stdin))
}

// spool keeps a copy of what is read in a temporary file.
func spool(pipe io.Reader) (*source, error) {
	file, err := os.CreateTemp("", "dibs-enqueue-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary copy of the input: %w", err)
	}
	// Without its name the copy goes with this process, even if that is killed. Windows keeps
	// the names of open files.
	named := os.Remove(file.Name()) != nil
	return &source{file: file, pipe: pipe, named: named}, nil
}

// first reads from the beginning.
func (s *source) first() *input {
	if s.pipe == nil {
		return newInput(s.file)
	}
	return newInput(io.TeeReader(s.pipe, s.file))
}

// again reads from the beginning, once all has been read.
func (s *source) again() (*input, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the input again: %w", err)
	}
	return newInput(s.file), nil
}

// Close deletes the copy, if there is one.
func (s *source) Close() error {
	err := s.file.Close()
	if s.named {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}
