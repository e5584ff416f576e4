package jobs

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// writingTo runs the command as a process with that stdout.
func (c *cli) writingTo(stdout *os.File, args ...string) runResult {
	c.T.Helper()
	cmd := c.Command(args...)
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = stdout, &text
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		c.T.Fatal(err)
	}
	return runResult{Code: cmd.ProcessState.ExitCode(), Out: "", Err: text.String()}
}

// unreadable returns outputs that accept no bytes.
func unreadable(t *testing.T) map[string]*os.File {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, broken, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() { full.Close(); broken.Close() })
	return map[string]*os.File{"a full disk": full, "a pipe that nobody reads": broken}
}

func TestClaimGivesBackWhatItCannotWrite(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines")
		n := 0
		for name, stdout := range unreadable(c.T) {
			args := []string{"claim", "q", "-n", "3", "--lease", "1h", "--worker", "w"}
			c.Refused(c.writingTo(stdout, args...), cmdline.ExitFailure, args, "3 claimed jobs could not be written and went back to the queue: ")
			n++
			for id := range 3 {
				job := c.Job(id + 1)
				if job["state"] != "waiting" || job["attempt"] != float64(n) || job["excused"] != float64(n) {
					c.T.Errorf("%s leaves %v", name, job)
				}
			}
		}
		c.Has(c.Stats("q"), object{"waiting": 3, "running": 0})
	})
}

// Without a reader nothing is claimed. After a shell's >&- stdout is the null device.
func TestClaimRefusesAStdoutThatNobodyReads(t *testing.T) {
	c := onSQLite(t)
	c.OK("enqueue", "q")
	for _, to := range []string{">&-", ">/dev/null"} {
		args := []string{"claim", "q", "--lease", "1h"}
		sh := c.Command(args...)
		sh.Args = append([]string{"sh", "-c", `exec "$0" "$@" ` + to, sh.Path}, sh.Args[1:]...)
		sh.Path = "/bin/sh"
		c.Refused(c.Finished(sh), cmdline.ExitFailure, args, "stdout is closed or the null device, so nobody can read the jobs: nothing was claimed")
		c.Has(c.Job(1), object{"state": "waiting", "attempt": 0})
	}
}

// A reader that takes only the first lines keeps their jobs, and the others are given back.
func TestClaimKeepsWhatItHasWritten(t *testing.T) {
	c := onSQLite(t)
	c.Feed(strings.Repeat("x\n", 3), "enqueue", "q", "--lines")
	db, err := newTestApp(c).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	jobs, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 3})
	if err != nil {
		t.Fatal(err)
	}
	a := newTestApp(c)
	a.Stdout = &bounded{lines: 1}
	if err := a.handOver(t.Context(), db, jobs); err == nil || !strings.Contains(err.Error(), "2 claimed jobs could not be written and went back") {
		t.Errorf("it says %v", err)
	}
	c.Has(c.Job(1), object{"state": "running"})
	c.Has(c.Stats("q"), object{"waiting": 2, "running": 1})
}

// After an interrupt during the claim, no job that was not written stays claimed.
func TestClaimGivesBackWhatAnInterruptComesBefore(t *testing.T) {
	c := onSQLite(t)
	c.OK("enqueue", "q")
	a := newTestApp(c)
	db, err := a.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	jobs, err := claim(ctx, interrupted{db, interrupt}, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1}, 0, false)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("claimed %v, %v", jobs, err)
	}
	if code := a.Fail(ctx, a.handOver(ctx, db, jobs)); code != cmdline.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	c.Has(c.Job(1), object{"state": "waiting", "excused": 1})
}

// interrupted is a database that sends an interrupt during a claim.
type interrupted struct {
	admin.Database
	interrupt func()
}

func (i interrupted) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	i.interrupt()
	return i.Database.Claim(ctx, r)
}

// bounded accepts a number of lines and then fails.
type bounded struct{ lines int }

func (b *bounded) Write(p []byte) (int, error) {
	if b.lines--; b.lines < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func newTestApp(c *cli) *app {
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	if err := a.DBFlag.Set(c.DB); err != nil {
		c.T.Fatal(err)
	}
	return a
}

// Commands report what they have done, even if they could not write their output.
func TestCommandsSayWhatWasDoneThoughItCouldNotBeWritten(t *testing.T) {
	c := onSQLite(t)
	c.OK("enqueue", "q", "--delay", "1h")
	for name, stdout := range unreadable(t) {
		if strings.Contains(name, "pipe") { // the pipe has no reader
			continue
		}
		for _, args := range [][]string{
			{"enqueue", "q", "1"},
			{"enqueue", "q", "1", "--json"},
			{"enqueue", "q", "--json", "--file", c.Write("x.jsonl", "1\n2\n")},
			{"enqueue", "q", "--json", "--partial", "--file", c.Write("x.jsonl", "1\n2\n")},
			{"edit", "1", "--priority", "1", "--json"},
			{"cancel", "1", "--json"},
			{"requeue", "1"},
			{"pause", "q", "--json"},
			{"prune", "--older-than", "0s", "--json"},
		} {
			c.Refused(c.writingTo(stdout, args...), cmdline.ExitFailure, args, "stdout could not be written, though all else was done: ")
		}
	}
	c.Has(c.Stats("q"), object{"waiting": 7, "paused": true})
}
