//go:build unix

package daemon

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/runner"
)

// holding is a program that leaves a process behind in a session of its own, which keeps stdin,
// stdout and stderr open for longer than the test waits. The program writes its process id into
// the pipe and ends with the given exit code.
const holding = `setsid sleep 20 & echo result; echo why >&2; echo $$ >"$0"; exit "$1"`

// needSetsid skips a test on systems without setsid(1), such as macOS.
func needSetsid(t *testing.T) {
	t.Helper()
	switch _, err := exec.LookPath("setsid"); {
	case err != nil && runtime.GOOS == "linux":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
}

// Processes that hold a program's pipes do not change how its attempt ended, nor do events
// after the program's end.
func TestAProgramThatHasEndedIsJudgedByItsExitCode(t *testing.T) {
	needSetsid(t)
	c := onSQLite(t)
	for _, cause := range []error{dibs.ErrJobTimeout, dibs.ErrLeaseLost, dibs.ErrCancelled, dibs.ErrShutdown} {
		for code, want := range map[string]string{"0": "", "1": "retry: exit code 1: why", "100": "dead: exit code 100: why"} {
			t.Run(cause.Error()+", exit code "+code, func(t *testing.T) {
				t.Parallel()
				pipe := c.Pipe()
				p := runner.NewProgram(runner.Options{Argv: []string{"sh", "-c", holding, pipe.Path, code}, Env: os.Environ(), StopAll: make(chan struct{})})
				defer p.Close()
				ctx, end := context.WithCancelCause(t.Context())
				job := &dibs.RawJob{ID: 1, Payload: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
				go func() {
					pipe.GonePid()
					end(cause)
				}()
				err := p.Handle(ctx, job)
				var got string
				if err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("the attempt ends with %q, want %q", got, want)
				}
				if result := string(job.Result); code == "0" && result != `"result"` {
					t.Errorf("the result is %s", result)
				}
			})
		}
	}
}

func TestAProgramThatHasFailedIsNotGivenBackAtShutdown(t *testing.T) {
	needSetsid(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q", "--max-attempts", "1")
		w := c.Work("q", "--shutdown", "0s", "--", "sh", "-c", holding, p.Path, "7")
		p.GonePid()
		w.Stop()
		c.End(w)
		c.Has(c.Job(1), object{"state": "dead"})
		if got := lastError(c.Job(1)); got != "exit code 7: why" {
			c.T.Errorf("the error is %q", got)
		}
	})
}
