//go:build unix

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

// holding is a program that leaves a process behind in a session of its own, which keeps stdin,
// stdout and stderr open for longer than the test waits. The program writes its process id into
// the pipe and ends with the given exit code.
const holding = `setsid sleep 20 & echo result; echo why >&2; echo $$ >"$0"; exit "$1"`

// gonePid waits until the process whose id the pipe delivers has ended.
func (p *pipe) gonePid() {
	p.c.t.Helper()
	var pid int
	read := make(chan error, 1)
	go func() {
		text, err := os.ReadFile(p.path)
		if err == nil {
			err = json.Unmarshal(text, &pid)
		}
		read <- err
	}()
	p.wait(read, "no program begins")
	for deadline := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; {
		if time.Now().After(deadline) {
			p.c.t.Fatal("the program does not end")
		}
	}
}

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
				pipe := c.pipe()
				p := newProgram(&workFlags{argv: []string{"sh", "-c", holding, pipe.path, code}}, os.Environ(), make(chan struct{}))
				defer p.close()
				ctx, end := context.WithCancelCause(t.Context())
				job := &dibs.RawJob{ID: 1, Payload: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
				go func() {
					pipe.gonePid()
					end(cause)
				}()
				err := p.handle(ctx, job)
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
		p := c.pipe()
		c.ok("enqueue", "q", "--max-attempts", "1")
		w := c.work("q", "--shutdown", "0s", "--", "sh", "-c", holding, p.path, "7")
		p.gonePid()
		w.stop()
		c.end(w)
		c.has(c.job(1), object{"state": "dead"})
		if got := lastError(c.job(1)); got != "exit code 7: why" {
			c.t.Errorf("the error is %q", got)
		}
	})
}
