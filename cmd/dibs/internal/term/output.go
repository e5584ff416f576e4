package term

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"

	"github.com/dibs-queue/dibs/internal/wire"
)

// output records errors of writing. When its reader has gone, as in dibs bench | head, it
// ends the command as Ctrl-C does, so that the command can give jobs back or remove tables.
type output struct {
	io.Writer
	failed func(error)
}

func (o output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.failed(err)
	}
	return n, err
}

// WatchOutput calls stop when the reader of an output has gone. unwritten returns the first
// error of writing to stdout, or that its reader has gone.
func (t *Terminal) WatchOutput(stop func()) (unwritten func() error) {
	var first atomic.Pointer[error]
	watch := func(w io.Writer, all bool) io.Writer {
		return output{w, func(err error) {
			unread := errors.Is(err, syscall.EPIPE)
			if all || unread {
				first.CompareAndSwap(nil, &err)
			}
			if unread {
				stop()
			}
		}}
	}
	if !t.OutTTY {
		t.Screen = watch(t.Screen, true)
	}
	if !t.ErrTTY {
		t.ErrScreen = watch(t.ErrScreen, false)
	}
	t.guard()
	return func() error {
		if err := first.Load(); err != nil {
			return *err
		}
		return nil
	}
}

// Tell writes what was done as one line of JSON. If that fails, what was done stays done, and run
// reports the error.
func (t *Terminal) Tell(v any) { _ = t.WriteJSON(v) }

// WriteJSON writes v as one line to stdout.
func (t *Terminal) WriteJSON(v any) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := t.Stdout.Write(wire.Whole(line.Bytes()))
	return err
}

// Say writes one line of text to stdout.
func (t *Terminal) Say(format string, args ...any) {
	fmt.Fprintf(t.Stdout, format+"\n", args...)
}

// WriteEach writes each of a list as one line of JSON.
func WriteEach[T any](t *Terminal, list []T, jsonOf func(T) any) error {
	for _, each := range list {
		if err := t.WriteJSON(jsonOf(each)); err != nil {
			return err
		}
	}
	return nil
}

// Done says what was done: v with --json, or else a line of text.
func (t *Terminal) Done(v any, format string, args ...any) {
	if t.JSON {
		t.Tell(v)
	} else {
		t.Say(format, args...)
	}
}
