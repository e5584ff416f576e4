package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
)

// On a terminal of 80 columns, every help fits, and has all of its words.
func TestHelpFitsATerminalOf80Columns(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/help/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no helps: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{60, 80, 100} {
			got := term.Wrapped(string(text), width)
			if width == 100 && got != string(text) {
				t.Errorf("%s changes at 100 columns:\n%s", file, got)
			}
			if a, b := strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(string(text)), " "); a != b {
				t.Errorf("%s loses words at %d columns", file, width)
			}
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && strings.Contains(strings.TrimSpace(line), " ") && width == 80 {
					t.Errorf("%s has a line of %d characters at %d: %s", file, n, width, line)
				}
			}
		}
	}
}

func TestHelpIsBrokenBetweenWords(t *testing.T) {
	t.Parallel()
	const text = "Add one job of very many words to\na queue.\n\nFlags:\n  -k, --kind K  the kind of the job\n      --name    x\n"
	const want = "Add one job of very many words\nto a queue.\n\nFlags:\n  -k, --kind K  the kind of the\n                job\n      --name    x\n"
	if got := term.Wrapped(text, 32); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
