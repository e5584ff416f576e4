package jobs

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// reading runs the command with a file as stdin, as a shell does.
func (c *cli) reading(stdin io.Reader, args ...string) runResult {
	c.T.Helper()
	return c.readingUntil(stdin, func() {}, args...)
}

// readingUntil calls told whenever the command writes to stderr.
func (c *cli) readingUntil(stdin io.Reader, told func(), args ...string) runResult {
	c.T.Helper()
	var out bytes.Buffer
	err := calling{told: told}
	code := run(c.T.Context(), append([]string{"--db", c.DB}, args...), stdin, &out, &err)
	return runResult{Code: code, Out: out.String(), Err: err.String()}
}

type calling struct {
	bytes.Buffer
	told func()
}

func (w *calling) Write(p []byte) (int, error) {
	defer w.told()
	return w.Buffer.Write(p)
}

// opened opens a file with the text.
func (c *cli) opened(text string) *os.File {
	c.T.Helper()
	f, err := os.Open(c.Write("input", text))
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { f.Close() })
	return f
}

// piped makes a pipe that contains the text. Its writing end stays open.
func (c *cli) piped(text string) (r, w *os.File) {
	c.T.Helper()
	r, w, err := os.Pipe()
	if err == nil {
		_, err = w.WriteString(text)
	}
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Input without a format is refused, not ignored.
func TestEnqueueRefusesInputWithoutAFormat(t *testing.T) {
	onEach(t, func(c *cli) {
		for text, hint := range map[string]string{
			"{\"to\": 1}\n{\"to\": 2}\n": "give --jsonl",
			"1\n2\n":                     "give --jsonl",
			"{\"payload\": 1, \"priority\": 3}\n{\"payload\": 2}\n": "give --jobs",
			"{\n \"to\": 1\n}\n":        "give - as the payload",
			"name,mail\nann,a@b\n":      "give --csv",
			"a.jpg\nb.jpg\n":            "give --lines",
			"Dear Ann,\nhow are you?\n": "give --lines",
			"{\"long\": \"" + strings.Repeat("x", 60_000) + "\"}\n": "give --jsonl",
		} {
			args := []string{"enqueue", "held"}
			c.Refused(c.reading(c.opened(text), args...), cmdline.ExitUsage, args, "stdin has data", hint)
			r, w := c.piped(text)
			c.Refused(c.reading(r, args...), cmdline.ExitUsage, args, "stdin has data", hint)
			w.Close()
		}
		if got := c.OK("stats"); !strings.HasPrefix(got, "no queues yet") {
			c.T.Errorf("something was enqueued:\n%s", got)
		}
	})
}

// Scripts start programs with a stdin that is not meant for them.
func TestEnqueueWithAStdinThatIsNotMeant(t *testing.T) {
	c := onSQLite(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	readToItsEnd := c.opened("a\nb\n")
	if _, err := io.Copy(io.Discard, readToItsEnd); err != nil {
		t.Fatal(err)
	}
	ended, w := c.piped("")
	w.Close()
	n := 0
	for _, test := range []struct {
		name  string
		stdin io.Reader
		args  []string
	}{
		{"/dev/null", null, nil},
		{"closed", closed, nil},
		{"an empty file", c.opened(""), nil},
		{"a file that is read to its end", readToItsEnd, nil},
		{"a pipe that has ended", ended, nil},
		{"a list that a loop reads", c.opened("a\nb\n"), []string{"1"}},
		{"a payload is given", c.opened("a\nb\n"), []string{"null"}},
	} {
		r := c.reading(test.stdin, append([]string{"enqueue", "q"}, test.args...)...)
		if n++; r.Code != cmdline.ExitOK || !strings.HasPrefix(r.Out, "enqueued job ") {
			t.Errorf("%s: exit code %d\n%s%s", test.name, r.Code, r.Out, r.Err)
		}
	}
	c.Has(c.Stats("q"), object{"waiting": n})
}

// A producer may be slow: only the end of its pipe says that there is no input.
func TestEnqueueWaitsForItsInput(t *testing.T) {
	onEach(t, func(c *cli) {
		args := []string{"enqueue", "q"}
		r, w := c.piped("")
		time.AfterFunc(300*time.Millisecond, func() { _, _ = w.WriteString("1\n") })
		c.Refused(c.reading(r, args...), cmdline.ExitUsage, args, "stdin has data", "give --jsonl")
		r, w = c.piped("")
		got := c.readingUntil(r, func() { w.Close() }, args...)
		if got.Code != cmdline.ExitOK || !strings.HasPrefix(got.Out, "enqueued job ") || !strings.Contains(got.Err, "waiting for what comes on stdin, or for its end; if nothing is to come, give null as the payload, or </dev/null") {
			c.T.Errorf("a pipe that ends late without anything: exit code %d\n%s%s", got.Code, got.Out, got.Err)
		}
		dir, err := os.Open(".")
		if err != nil {
			c.T.Fatal(err)
		}
		defer dir.Close()
		c.Refused(c.reading(dir, args...), cmdline.ExitUsage, args, "stdin cannot be read")
		c.Has(c.Stats("q"), object{"waiting": 1})
	})
}

// An interrupt ends the wait for input, and a refused file can be read again.
func TestEnqueueLeavesItsInput(t *testing.T) {
	c := onSQLite(t)
	r, _ := c.piped("")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"--db", c.DB, "enqueue", "q"}, r, &out, &errs); code == cmdline.ExitOK {
		t.Errorf("after an interrupt: exit code %d: %s%s", code, &out, &errs)
	}
	f := c.opened("a\nb\n")
	args := []string{"enqueue", "q"}
	c.Refused(c.reading(f, args...), cmdline.ExitUsage, args, "stdin has data")
	if rest, err := io.ReadAll(f); string(rest) != "a\nb\n" {
		t.Errorf("left of the file: %q, %v", rest, err)
	}
}
