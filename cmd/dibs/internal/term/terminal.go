// Package term is where a run of the command writes: text that cannot harm a terminal, tables, blocks and JSON.
package term

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Terminal is where one run of the command reads and writes.
type Terminal struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer // guarded: they escape what could control a terminal
	Screen         io.Writer // stdout, not guarded
	ErrScreen      io.Writer // stderr, not guarded
	InTTY          bool      // stdin is a terminal
	OutTTY, ErrTTY bool      // stdout or stderr is a terminal
	OutNull        bool      // stdout is the null device, which also replaces a closed stdout
	Color          bool      // stdout may be coloured
	Width          int       // columns of the terminal; 100 if stdout is not one

	JSON bool // --json
}

// Attach sets up the terminal. The streams may be anything that is read and written.
func (t *Terminal) Attach(stdin io.Reader, stdout, stderr io.Writer) {
	t.Stdin, t.Screen, t.ErrScreen, t.Width = stdin, stdout, stderr, 100
	t.guard()
	t.InTTY, t.OutTTY, t.ErrTTY = isTTY(stdin), isTTY(stdout), isTTY(stderr)
	t.OutNull = !t.OutTTY && isNull(stdout)
	t.Color = t.OutTTY && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if t.OutTTY {
		if w, _, err := term.GetSize(int(stdout.(*os.File).Fd())); err == nil && w >= 40 {
			t.Width = w
		}
	}
}

func isTTY(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func isNull(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	null, failed := os.Stat(os.DevNull)
	return err == nil && failed == nil && os.SameFile(info, null)
}
