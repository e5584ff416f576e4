package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What interpreters write when a program dies, as they wrote it. The line that says why comes first.
func TestTheLineThatSaysWhyComesFirst(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"python3-traceback":      "ValueError: no such recipient: ann",
		"node-error":             "Error: no such recipient: ann",
		"node-error-with-fields": "TypeError: connection refused",
		"node-thrown-text":       "just text",
		"node-missing-module":    "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'nowhere' imported from /srv/g.mjs",
		"ruby-exception":         "e.rb:1:in `handle': no such recipient: ann (RuntimeError)",
		"php-exception":          "PHP Fatal error:  Uncaught Exception: no such recipient: ann in /srv/f.php:1",
	} {
		text, err := os.ReadFile(filepath.Join("testdata", "stderr", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		stderr := strings.TrimSpace(string(text))
		if got := failureText(1, nil, stderr); got != "exit code 1: "+want+"\n\n"+stderr {
			t.Errorf("%s: %s", name, got)
		}
	}
	for stderr, want := range map[string]string{
		"":                         "signal: killed",
		"one":                      "signal: killed: one",
		"one\ntwo":                 "signal: killed: two\n\none\ntwo",
		"one\n  two":               "signal: killed: one\n\none\n  two",
		"  one\n  two":             "signal: killed:   two\n\n  one\n  two",
		"why\r\n    at x\r\n}\r\n": "signal: killed: why\n\nwhy\r\n    at x\r\n}\r\n",
	} {
		if got := failureText(-1, errors.New("signal: killed"), stderr); got != want {
			t.Errorf("%q: %q", stderr, got)
		}
	}
}
