package term

import (
	"io"
	"regexp"
	"strings"

	"github.com/dibs-queue/dibs/internal/checks"
)

// The command's output may contain text from others: names, payloads, errors and rows of a
// table. Some characters control a terminal. So stdout and stderr of an app are guarded: they
// escape everything but text, line ends, tabs, and on a terminal the colours of paint.

// guarded escapes what could harm a terminal. Each Write must end with a whole character.
type guarded struct {
	to      io.Writer
	colored func() bool
}

func (g guarded) Write(p []byte) (int, error) {
	safe := SafeText(string(p), g.colored())
	if n, err := io.WriteString(g.to, safe); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// guard makes stdout and stderr from screen and errScreen.
func (t *Terminal) guard() {
	t.Stdout = guarded{t.Screen, func() bool { return t.Color }}
	t.Stderr = guarded{t.ErrScreen, func() bool { return false }}
}

// Painted lists the sequences of paint, and the one that resets them.
var Painted = regexp.MustCompile("\x1b\\[(?:[012]|3[1236])?m")

// SafeText escapes characters that control a terminal, except for the colours of paint if
// colored is true.
func SafeText(s string, colored bool) string {
	if !colored || !strings.Contains(s, "\x1b") {
		return checks.Escaped(s)
	}
	var b strings.Builder
	at := 0
	for _, m := range Painted.FindAllStringIndex(s, -1) {
		b.WriteString(checks.Escaped(s[at:m[0]]))
		b.WriteString(s[m[0]:m[1]])
		at = m[1]
	}
	b.WriteString(checks.Escaped(s[at:]))
	return b.String()
}
