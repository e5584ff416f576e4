package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// inputLine is one line, or why it cannot be read: errLongLine is about this line alone.
type inputLine struct {
	number int // from 1, blank lines counted too
	text   []byte
	err    error
}

var errLongLine = &problemError{kind: tooLarge, detail: fmt.Sprintf("the line is longer than %d bytes", maxLine)}

// lineReader reads the lines of a stream that are not blank. It ends with the call also while it passes over what
// it does not keep: a few packed kilobytes may be millions of blank lines, or one line that is far too long.
type lineReader struct {
	in     *bufio.Reader
	drop   func(n int)     // gives back the memory of bytes that are not kept
	over   context.Context // ends with the call
	number int             // of the last line that was read
}

// next reads a line. Its error is io.EOF after the last one, and when the call is over.
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
		l.drop(len(text)) // it has spaces that only Unicode knows, or more than the buffer holds
	}
}

// skipBlank passes over the blank lines that stand in the buffer, all at once.
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
		part, _ := l.in.Peek(l.in.Buffered()) // as many as there are
		spaces := len(part) - len(bytes.TrimLeft(part, " \t\r\n"))
		blank := bytes.LastIndexByte(part[:spaces], '\n') + 1
		if blank == 0 {
			return nil
		}
		l.number += bytes.Count(part[:blank], []byte{'\n'})
		_, _ = l.in.Discard(blank) // as many as there are
		l.drop(blank)
	}
}

// read reads a line. It passes over one that is too long, and keeps nothing of it.
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
