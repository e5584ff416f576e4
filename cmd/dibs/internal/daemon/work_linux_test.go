package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/needs"
)

// childlessProgram is a shell script that starts no children.
const childlessProgram = `exec 3>"$0"; echo x >&3; exec sleep 300`

func TestWorkTakesItsProgramsAlongWhenKilled(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q")
		w := c.Process("q", "--lease", "500ms", "--", "sh", "-c", childlessProgram, p.Path)
		p.Begun()
		w.Signal(syscall.SIGKILL)
		p.Gone()
		c.End(c.Work("q", "--until-empty", "--", "true"))
		c.Has(c.Job(1), object{"state": "completed"})
		if attempt := c.Job(1)["attempt"].(float64); attempt < 2 { // the attempt is higher if the machine was slower than the lease
			c.T.Errorf("completed by attempt %v, the killed worker's own", attempt)
		}
		if got := lastError(c.Job(1)); !strings.Contains(got, "lease expired") {
			c.T.Errorf("the history says %q", got)
		}
	})
}

// A worker that was stopped past its lease must stop its program, and its outcome must be
// refused.
func TestWorkStopsTheProgramsOfLostLeases(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q")
		w := c.Process("q", "--lease", "500ms", "--", "sh", "-c", stubborn, p.Path)
		p.Begun()
		w.Freeze()
		job := c.Row(c.OK("claim", "q", "--wait", "20s", "--lease", "1m"))
		if job["attempt"] == 1.0 {
			c.T.Errorf("claimed %v while it ran", job)
		}
		w.Signal(syscall.SIGCONT)
		p.Gone()
		c.Has(c.Job(1), object{"state": "running", "token": job["token"]})
		c.OK("finish", "1", job["token"].(string), "--completed")
		w.Signal(syscall.SIGTERM)
		if code := w.Ended(); code != cmdline.ExitOK {
			c.T.Errorf("dibs work ends with exit code %d", code)
		}
		c.Has(c.Job(1), object{"state": "completed", "attempt": job["attempt"]})
	})
}

func TestWorkWaitsForProgramsAtTheFirstSignal(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q")
		w := c.Process("q", "--", "sh", "-c", `exec 3>"$0"; echo x >&3; sleep 0.3; echo well`, p.Path)
		p.Begun()
		w.Signal(syscall.SIGTERM)
		if code := w.Ended(); code != cmdline.ExitOK {
			c.T.Errorf("dibs work ends with exit code %d", code)
		}
		c.Has(c.Job(1), object{"state": "completed", "result": "well"})
	})
}

func TestWorkGivesJobsBackAtTheSecondSignal(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q")
		w := c.Process("q", "--shutdown", "1h", "--", "sh", "-c", stubborn, p.Path)
		p.Begun()
		w.Signal(syscall.SIGINT)
		w.Says("worker stopping")
		w.Signal(syscall.SIGTERM)
		p.Gone()
		w.Says("stopped by a second signal")
		if code := w.Ended(); code != cmdline.ExitInterrupted {
			c.T.Errorf("dibs work ends with exit code %d", code)
		}
		job := c.Job(1) // a running claim may have taken the job too, and given it back
		c.Has(job, object{"state": "waiting", "attempt": job["excused"]})
	})
}

// A program that cannot start is no fault of its job.
func TestWorkGivesJobsBackWhoseProgramsCannotBeStarted(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		script := filepath.Join(c.T.TempDir(), "script")
		write := func() {
			if err := os.WriteFile(script+".new", []byte("#!/bin/sh\necho well\n"), 0o755); err != nil {
				c.T.Fatal(err)
			}
			if err := os.Rename(script+".new", script); err != nil {
				c.T.Fatal(err)
			}
		}
		write()
		w := c.Process("q", "--", script)
		w.Says("worker started")
		if err := os.Remove(script); err != nil {
			c.T.Fatal(err)
		}
		c.OK("enqueue", "q", "--max-attempts", "1")
		w.Says("job not started; it is given back, and claims pause")
		job := c.Job(1)
		write()
		c.Await("q", "completed", 1)
		w.Signal(syscall.SIGTERM)
		if code := w.Ended(); code != cmdline.ExitOK {
			c.T.Errorf("dibs work ends with exit code %d", code)
		}
		c.HasNot(job, "errors")
		job = c.Job(1)
		c.Has(job, object{"state": "completed", "result": "well", "excused": job["attempt"].(float64) - 1})
		c.HasNot(job, "errors")
	})
}

func TestWorkWithTooFewOpenFilesFailsNoJob(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	const n = 100
	c.Feed(strings.Repeat("x\n", n), "enqueue", "q", "--lines", "--max-attempts", "1")
	cmd := c.Command("work", "q", "--until-empty", "-c", "60", "--", "sleep", "0.1")
	cmd.Args = append([]string{"sh", "-c", `ulimit -n 80; exec "$0" "$@"`}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
	var err error
	if cmd.Path, err = exec.LookPath("sh"); err != nil {
		t.Fatal(err)
	}
	r := c.Finished(cmd)
	if r.Code != cmdline.ExitOK || !strings.Contains(r.Err, "job not started") || !strings.Contains(r.Err, "too many open files") {
		t.Errorf("exit code %d\n%.2000s", r.Code, r.Err)
	}
	c.Has(c.Stats("q"), object{"completed": n, "dead": 0})
}

func TestWorkLooksForItsProgramFirst(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	c.OK("enqueue", "q")
	for _, program := range []string{"./no-such-program", "no-such-program", c.Write("script", "#!/bin/sh\n"), t.TempDir()} {
		c.Fails(cmdline.ExitUsage, "", []string{"work", "q", "--", program}, "cannot run", program)
	}
	c.Has(c.Job(1), object{"state": "waiting", "attempt": 0})
}
