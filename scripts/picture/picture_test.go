package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/dibs-queue/dibs" // Go runs the tests again if a file is added to its folder, which needs.Sources cannot read
	"github.com/dibs-queue/dibs/internal/needs"
)

// words is the text of an SVG, which must be well-formed.
func words(t *testing.T, svg []byte) string {
	t.Helper()
	var all strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			all.Write(token)
		case xml.EndElement:
			all.WriteString(" ")
		}
	}
}

// expected is what the picture of the demo must say, whatever its figures are.
var expected = []string{
	"$ dibs demo", "worker-3", "completed", "killed", "blocked by group", "Verdict:", "every promise was kept",
	"two workers on one job at once", "jobs left behind", "watch the queues",
}

func TestThePictureOfTheDemoCanBeRemade(t *testing.T) {
	t.Parallel()
	needs.Long(t)
	needs.Files(t, "../picture.sh")
	needs.Sources(t, "../../cmd/dibs", ".")
	needs.Program(t, "script")
	file := filepath.Join(t.TempDir(), "demo.svg")
	if out, err := exec.CommandContext(t.Context(), "sh", "../picture.sh", file, "--jobs", "500").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{file, "../../docs/demo.svg"} {
		svg, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := words(t, svg)
		for _, want := range expected {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", name, want, text)
			}
		}
	}
}

func TestTheScreenIsWhatATerminalShows(t *testing.T) {
	t.Parallel()
	screen := newTerminal()
	for _, part := range []string{
		"\x1b[?25l\x1b[>4;2mone\r\n", "\x1b[1;32mgre", "en\x1b[m  \x1b[2m\xe2\x94", "\x80 faint\x1b[m", // cut within a character
		"\x1b[1A\r\x1b[2CE <&>\x1b[K\x1b[3", "D\x1b[1P", "\x1b]",
	} {
		screen.write([]byte(part))
	}
	got := screen.shown()
	want := [][]span{
		{{col: 0, text: "onE &>"}},
		{{col: 0, text: "green", style: style{color: 32, bold: true}}, {col: 7, text: "─ faint", style: style{faint: true}}},
	}
	for i, row := range want {
		if len(got[i]) != len(row) {
			t.Fatalf("row %d is %+v, want %+v", i, got[i], row)
		}
		for j, s := range row {
			if got[i][j] != s {
				t.Errorf("row %d has %+v, want %+v", i, got[i][j], s)
			}
		}
	}
	if text := words(t, draw([]frame{{0, got}})); !strings.Contains(text, "onE &>") {
		t.Errorf("the picture says %q", text)
	}
	if screen.strange != "" {
		t.Errorf("it does not understand %s", screen.strange)
	}
	screen.write([]byte(strings.Repeat("\r\nmore", 2*rows)))
	if got := screen.shown(); len(got[rows-1]) != 1 || len(got[0]) != 1 || got[0][0].text != "more" {
		t.Errorf("after scrolling, the first row is %+v and the last %+v", got[0], got[rows-1])
	}
}

func TestOutputThatIsNotUnderstoodMakesNoPicture(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"", "one\x1b[5;7Htwo", "\x1b[45mone"} {
		if _, err := record(strings.NewReader(output)); err == nil {
			t.Errorf("%q makes a picture", output)
		}
	}
}
