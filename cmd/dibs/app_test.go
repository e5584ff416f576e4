package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/open"
)

// Reading from a terminal or a pipe blocks. An interrupt must end it, and leave nothing
// half done.
func TestInterruptedWhileReadingStdin(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"enqueue", "q", "--lines"},
		{"enqueue", "q", "--csv", "--partial"},
		{"enqueue", "q", "-"},
		{"finish"},
		{"extend"},
		{"cancel", "-"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			c := onSQLite(t)
			c.ok("migrate")
			stdin, feeder := io.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			var out, err bytes.Buffer
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, append([]string{"--db", c.db}, args...), stdin, &out, &err)
			}()
			if _, err := feeder.Write([]byte("1")); err != nil { // returns when the command reads
				t.Fatal(err)
			}
			cancel()
			select {
			case code := <-ended:
				if code != exitInterrupted || err.String() != "dibs: interrupted\n" || strings.TrimPrefix(out.String(), "enqueued 0 jobs\n") != "" {
					t.Errorf("exit code %d, %q, %q", code, out.String(), err.String())
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it goes on reading")
			}
			if got := c.ok("stats"); !strings.HasPrefix(got, "no queues yet") {
				t.Errorf("something was enqueued:\n%s", got)
			}
		})
	}
}

// With --partial, slow input is enqueued as it comes.
func TestEnqueuePartialDoesNotWaitForMore(t *testing.T) {
	onEach(t, func(c *cli) {
		stdin, feeder := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			ended <- run(context.Background(), []string{"--db", c.db, "enqueue", "q", "--lines", "--partial"}, stdin, io.Discard, io.Discard)
		}()
		for i := range 3 {
			fmt.Fprintf(feeder, "line %d\n", i)
			c.has(c.row(c.ok("claim", "q", "--wait", "20s")), object{"payload": fmt.Sprintf("line %d", i)})
		}
		feeder.Close()
		if code := <-ended; code != exitOK {
			c.t.Errorf("exit code %d", code)
		}
	})
}

func TestExitCodesOfErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		code int
	}{
		{errors.New("anything"), exitFailure},
		{&usageError{err: errors.New("x"), command: "dibs ls"}, exitUsage},
		{&dibs.InvalidError{Field: "n", Reason: "x"}, exitUsage},
		{fmt.Errorf("x: %w", &dibs.FinishError{Lost: []int64{1}}), exitLeaseLost},
		{fmt.Errorf("x: %w", dibs.ErrUnavailable), exitUnavailable},
		{fmt.Errorf("x: %w", dibs.ErrNotFound), exitNotFound},
		{fmt.Errorf("x: %w", dibs.ErrUnknownQueue), exitNotFound},
		{fmt.Errorf("x: %w", dibs.ErrSchema), exitSchema},
		{&open.Error{Problem: "x", Err: dibs.ErrSchema}, exitSchema},
		{&codeError{code: exitPartial}, exitPartial},
		{&hintError{err: &codeError{exitNotFound, errors.New("x")}, next: "y"}, exitNotFound},
	} {
		if got := exitCode(t.Context(), test.err); got != test.code {
			t.Errorf("%v gives exit code %d, want %d", test.err, got, test.code)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := exitCode(ctx, fmt.Errorf("x: %w", context.Canceled)); got != exitInterrupted {
		t.Errorf("an interrupt gives exit code %d", got)
	}
}

func TestColoursOnlyWhereTheyAreWanted(t *testing.T) {
	t.Parallel()
	jobs := []*dibs.RawJob{{ID: 7, State: dibs.Running, Queue: "q\x1b[31m", Kind: strings.Repeat("kind", maxName/4), Worker: "w\nx"}}
	write := func(color, tty bool) string {
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, io.Discard)
		a.color, a.outTTY = color, tty
		a.writeJobs(jobs)
		a.writeJob(jobs[0], nil)
		if err := a.writeStats([]dibs.QueueStats{{Queue: "q", Dead: 1}}, &why{}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := write(false, true); strings.Contains(got, "\x1b") {
		t.Errorf("without colours it writes %q", got)
	}
	if got := write(true, true); !strings.Contains(got, string(cyan)+"running") || strings.Contains(got, "q\x1b[31m") {
		t.Errorf("with colours it writes %q", got)
	}
	if got := write(false, false); !strings.Contains(got, strings.Repeat("kind", maxName/4)+" ") {
		t.Errorf("names are cut where nobody needs it: %s", got)
	}
	for line := range strings.Lines(write(false, true)) {
		if len([]rune(line)) > 101 && !strings.Contains(line, "kind") {
			t.Errorf("wider than 100 columns: %s", line)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	if got := plural(1, "job") + plural(2000, "job"); got != "1 job2,000 jobs" {
		t.Errorf("plural gives %q", got)
	}
}
