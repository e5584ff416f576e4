package main

import (
	"io"
	"regexp"
	"strings"

	"github.com/dibs-queue/dibs/internal/checks"
)

// Whatever the command writes may hold text that others chose: names, payloads, errors and
// rows of a table. A terminal takes some characters as orders. So stdout and stderr of an
// app are guarded: nothing reaches them unescaped but text, line ends, tabs, and on a
// terminal the colours of paint.

// guarded writes to a terminal or a file what cannot do harm there. Each Write holds whole
// characters.
type guarded struct {
	to      io.Writer
	colored func() bool
}

func (g guarded) Write(p []byte) (int, error) {
	safe := safeText(string(p), g.colored())
	if n, err := io.WriteString(g.to, safe); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// guard makes stdout and stderr of the screens that they lie before.
func (a *app) guard() {
	a.stdout = guarded{a.screen, func() bool { return a.color }}
	a.stderr = guarded{a.errScreen, func() bool { return false }}
}

// painted are the sequences that paint writes, and what ends them.
var painted = regexp.MustCompile("\x1b\\[(?:[012]|3[1236])?m")

// safeText escapes what a terminal would take as an order, but for colours if there may be
// some.
func safeText(s string, colored bool) string {
	if !colored || !strings.Contains(s, "\x1b") {
		return checks.Escaped(s)
	}
	var b strings.Builder
	at := 0
	for _, m := range painted.FindAllStringIndex(s, -1) {
		b.WriteString(checks.Escaped(s[at:m[0]]))
		b.WriteString(s[m[0]:m[1]])
		at = m[1]
	}
	b.WriteString(checks.Escaped(s[at:]))
	return b.String()
}

// printable is text from elsewhere within a line: escaped, also where colours are allowed,
// with blanks for line ends and tabs.
func printable(s string) string {
	return checks.Escaped(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(s))
}
