package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// inputLine is a line that was read, or the error of reading it. After errLongLine, later lines can still be read.
type inputLine struct {
	number int // number of the line, from 1; blank lines count
	text   []byte
	err    error
}

var errLongLine = &problemError{kind: tooLarge, detail: fmt.Sprintf("the line is longer than %d bytes", maxLine)}

// lineReader reads the lines of a stream that are not blank. It ends when the call ends, even while it skips: a
// few packed kilobytes may hold millions of blank lines, or one line that is far too long.
type lineReader struct {
	in     *bufio.Reader
	drop   func(n int)     // gives back the memory of n bytes that are not kept
	over   context.Context // ends when the call ends
	number int             // number of the last line read
}

// next reads a line. The error is io.EOF after the last line, and also when the call has ended.
func (l *lineReader) next() inputLine {
	for {
		if err := l.skipBlank(); err != nil {
			return inputLine{number: l.number + 1, err: err}
		}
		text, err := l.read()
		l.number++
		if err != nil || len(bytes.TrimSpace(text)) > 0 {
			return inputLine{l.number, text, err}
		}
		l.drop(len(text)) // a blank line that skipBlank has not skipped: longer than the buffer, or with Unicode's own spaces
	}
}

// skipBlank skips the blank lines that are in the buffer, all at once.
func (l *lineReader) skipBlank() error {
	for {
		if l.over.Err() != nil {
			return io.EOF
		}
		if _, err := l.in.Peek(1); errors.Is(err, io.EOF) {
			return io.EOF
		} else if err != nil {
			return unread(err)
		}
		part, _ := l.in.Peek(l.in.Buffered()) // never fails: the bytes are in the buffer
		spaces := len(part) - len(bytes.TrimLeft(part, " \t\r\n"))
		blank := bytes.LastIndexByte(part[:spaces], '\n') + 1
		if blank == 0 {
			return nil
		}
		l.number += bytes.Count(part[:blank], []byte{'\n'})
		_, _ = l.in.Discard(blank) // never fails: the bytes are in the buffer
		l.drop(blank)
	}
}

// read reads a line. If the line is too long, it skips the rest of it and keeps nothing.
func (l *lineReader) read() ([]byte, error) {
	var line []byte
	long := false
	for l.over.Err() == nil {
		part, err := l.in.ReadSlice('\n')
		switch {
		case long:
			l.drop(len(part))
		case len(line)+len(part) > maxLine:
			l.drop(len(line) + len(part))
			line, long = nil, true
		default:
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, unread(err)
		case long:
			return nil, errLongLine
		case err != nil && len(line) == 0:
			return nil, io.EOF
		}
		return line, nil
	}
	return nil, io.EOF
}
