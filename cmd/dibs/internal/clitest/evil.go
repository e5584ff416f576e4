package clitest

import (
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/chars"
)

// Hostile text: terminal control sequences in all their forms, characters that reverse text, and
// a line that looks like one of dibs. JSON must escape the first part.
const (
	EvilControls = "\x07\x1b[45m\x1b]0;title\x07\r\b"
	EvilText     = "\u009b31m\u009d0;t\u009c\u0085\u202e\u2066\u2069\u200e\u200f\u061c\u2028\u2029\u007f"
	EvilName     = EvilControls + EvilText + "\ndibs: fake"
)

// Harmless checks that no hostile text has reached a terminal.
func Harmless(t *testing.T, what, text string, colored bool) {
	t.Helper()
	if colored {
		text = term.Painted.ReplaceAllString(text, "")
	}
	for _, r := range text {
		if chars.Unsafe(r) && r != '\n' && r != '\t' {
			t.Errorf("%s: %q reaches the terminal:\n%q", what, r, text)
			return
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "dibs: fake") {
			t.Errorf("%s: a name makes a line of its own:\n%q", what, text)
			return
		}
	}
}
