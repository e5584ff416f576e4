// Command picture draws what a terminal showed: it reads a terminal's output while it is
// written, and writes an animated SVG with the text. scripts/picture.sh uses it for the
// picture of `dibs demo` in the README.
//
//	script -qec 'dibs demo' /dev/null | go run ./scripts/picture demo.svg
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	columns = 80
	rows    = 27

	pause    = 20 * time.Millisecond  // between two writes of a program: what came before is a whole picture
	interval = 500 * time.Millisecond // at least, from one frame to the next
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: picture FILE.svg <terminal-output")
		os.Exit(2)
	}
	frames, err := record(os.Stdin)
	if err == nil {
		err = os.WriteFile(os.Args[1], draw(frames), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// frame is the screen as it was from a moment on.
type frame struct {
	at   time.Duration // since the recording began
	rows [rows][]span
}

// record takes frames of the screen until its output ends.
func record(output io.Reader) ([]frame, error) {
	var (
		screen = newTerminal()
		frames []frame
		began  = time.Now()
		last   time.Duration // when the last output came
		buf    = make([]byte, 1<<16)
	)
	for {
		n, err := output.Read(buf)
		now := time.Since(began)
		ended := errors.Is(err, io.EOF)
		settled := now-last > pause && (len(frames) == 0 || last-frames[len(frames)-1].at >= interval)
		if ended || settled && last > 0 {
			frames = append(frames, frame{last, screen.shown()})
		}
		switch {
		case ended && last == 0:
			return nil, errors.New("there was no output")
		case ended && screen.strange != "":
			return nil, fmt.Errorf("the output has %s, which is not understood", screen.strange)
		case ended:
			return frames, nil
		case err != nil:
			return nil, err
		}
		screen.write(buf[:n])
		last = now
	}
}
