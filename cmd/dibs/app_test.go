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
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/words"
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
			c.OK("migrate")
			stdin, feeder := io.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			var out, err bytes.Buffer
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, append([]string{"--db", c.DB}, args...), stdin, &out, &err)
			}()
			if _, err := feeder.Write([]byte("1")); err != nil { // returns when the command reads
				t.Fatal(err)
			}
			cancel()
			select {
			case code := <-ended:
				if code != cmdline.ExitInterrupted || err.String() != "dibs: interrupted\n" || strings.TrimPrefix(out.String(), "enqueued 0 jobs\n") != "" {
					t.Errorf("exit code %d, %q, %q", code, out.String(), err.String())
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it goes on reading")
			}
			if got := c.OK("stats"); !strings.HasPrefix(got, "no queues yet") {
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
			ended <- run(context.Background(), []string{"--db", c.DB, "enqueue", "q", "--lines", "--partial"}, stdin, io.Discard, io.Discard)
		}()
		for i := range 3 {
			fmt.Fprintf(feeder, "line %d\n", i)
			c.Has(c.Row(c.OK("claim", "q", "--wait", "20s")), object{"payload": fmt.Sprintf("line %d", i)})
		}
		feeder.Close()
		if code := <-ended; code != cmdline.ExitOK {
			c.T.Errorf("exit code %d", code)
		}
	})
}

func TestExitCodesOfErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		code int
	}{
		{errors.New("anything"), cmdline.ExitFailure},
		{&cmdline.UsageError{Err: errors.New("x"), Command: "dibs ls"}, cmdline.ExitUsage},
		{&dibs.InvalidError{Field: "n", Reason: "x"}, cmdline.ExitUsage},
		{fmt.Errorf("x: %w", &dibs.FinishError{Lost: []int64{1}}), cmdline.ExitLeaseLost},
		{fmt.Errorf("x: %w", dibs.ErrUnavailable), cmdline.ExitUnavailable},
		{fmt.Errorf("x: %w", dibs.ErrNotFound), cmdline.ExitNotFound},
		{fmt.Errorf("x: %w", dibs.ErrUnknownQueue), cmdline.ExitNotFound},
		{fmt.Errorf("x: %w", dibs.ErrSchema), cmdline.ExitSchema},
		{&open.Error{Problem: "x", Err: dibs.ErrSchema}, cmdline.ExitSchema},
		{&cmdline.CodeError{Code: cmdline.ExitPartial}, cmdline.ExitPartial},
		{&cmdline.HintError{Err: &cmdline.CodeError{Code: cmdline.ExitNotFound, Err: errors.New("x")}, Next: "y"}, cmdline.ExitNotFound},
	} {
		if got := cmdline.ExitCode(t.Context(), test.err); got != test.code {
			t.Errorf("%v gives exit code %d, want %d", test.err, got, test.code)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := cmdline.ExitCode(ctx, fmt.Errorf("x: %w", context.Canceled)); got != cmdline.ExitInterrupted {
		t.Errorf("an interrupt gives exit code %d", got)
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := words.Count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	if got := words.Plural(1, "job") + words.Plural(2000, "job"); got != "1 job2,000 jobs" {
		t.Errorf("plural gives %q", got)
	}
}
