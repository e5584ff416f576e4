package main

import (
	"bufio"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
)

// process is 'dibs work' in a process of its own.
type process struct {
	c   *cli
	cmd *exec.Cmd
	log chan string // lines of its stderr
}

func (c *cli) process(args ...string) *process {
	c.t.Helper()
	return c.processBy(func(*testing.T, *exec.Cmd) {}, args...)
}

// processBy is process, with a change of how it is started.
func (c *cli) processBy(change func(*testing.T, *exec.Cmd), args ...string) *process {
	c.t.Helper()
	p := &process{c: c, cmd: c.command(append([]string{"work"}, args...)...), log: make(chan string, 100)}
	change(c.t, p.cmd)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			p.log <- lines.Text()
		}
		close(p.log)
	}()
	c.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.signal(syscall.SIGKILL)
			_ = p.cmd.Wait()
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.c.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.c.t.Error(err)
	}
}

// freeze stops the process, but not while it holds SQLite's write lock, for which all others
// would wait.
func (p *process) freeze() {
	p.c.t.Helper()
	p.stop()
	path, isFile := strings.CutPrefix(p.c.db, "sqlite:")
	if !isFile {
		return
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		p.c.t.Fatal(err)
	}
	defer db.Close()
	free := func() bool {
		_, err := db.Exec("begin immediate; rollback")
		return err == nil
	}
	deadline := time.Now().Add(patience)
	for !free() {
		if time.Now().After(deadline) {
			p.c.t.Fatal("dibs work always holds the write lock")
		}
		p.signal(syscall.SIGCONT)
		for !free() && time.Now().Before(deadline) { // waits for the release of the lock
		}
		p.stop()
	}
}

// stop stops the process and waits until all of its threads have stopped.
func (p *process) stop() {
	p.c.t.Helper()
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		p.c.t.Fatalf("dibs work has not stopped: %v, %v", status, err)
	}
}

// says waits for a line of the log that contains words.
func (p *process) says(words string) {
	p.c.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line, open := <-p.log:
			if strings.Contains(line, words) {
				return
			}
			if !open {
				p.c.t.Fatalf("dibs work has ended without saying %q", words)
			}
		case <-timeout:
			p.c.t.Fatalf("dibs work does not say %q", words)
		}
	}
}

// ended waits for the end and returns the exit code.
func (p *process) ended() int {
	p.c.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case _, open := <-p.log:
			if !open {
				_ = p.cmd.Wait() // the exit code says it
				return p.cmd.ProcessState.ExitCode()
			}
		case <-timeout:
			p.c.t.Fatal("dibs work does not end")
		}
	}
}

// childlessProgram is a shell script that starts no children.
const childlessProgram = `exec 3>"$0"; echo x >&3; exec sleep 300`

func TestWorkTakesItsProgramsAlongWhenKilled(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q")
		w := c.process("q", "--lease", "500ms", "--", "sh", "-c", childlessProgram, p.path)
		p.begun()
		w.signal(syscall.SIGKILL)
		p.gone()
		c.end(c.work("q", "--until-empty", "--", "true"))
		c.has(c.job(1), object{"state": "completed"})
		if attempt := c.job(1)["attempt"].(float64); attempt < 2 { // the attempt is higher if the machine was slower than the lease
			c.t.Errorf("completed by attempt %v, the killed worker's own", attempt)
		}
		if got := lastError(c.job(1)); !strings.Contains(got, "lease expired") {
			c.t.Errorf("the history says %q", got)
		}
	})
}

// A worker that was stopped past its lease must stop its program, and its outcome must be
// refused.
func TestWorkStopsTheProgramsOfLostLeases(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q")
		w := c.process("q", "--lease", "500ms", "--", "sh", "-c", stubborn, p.path)
		p.begun()
		w.freeze()
		job := c.row(c.ok("claim", "q", "--wait", "20s", "--lease", "1m"))
		if job["attempt"] == 1.0 {
			c.t.Errorf("claimed %v while it ran", job)
		}
		w.signal(syscall.SIGCONT)
		p.gone()
		c.has(c.job(1), object{"state": "running", "token": job["token"]})
		c.ok("finish", "1", job["token"].(string), "--completed")
		w.signal(syscall.SIGTERM)
		if code := w.ended(); code != exitOK {
			c.t.Errorf("dibs work ends with exit code %d", code)
		}
		c.has(c.job(1), object{"state": "completed", "attempt": job["attempt"]})
	})
}

func TestWorkWaitsForProgramsAtTheFirstSignal(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q")
		w := c.process("q", "--", "sh", "-c", `exec 3>"$0"; echo x >&3; sleep 0.3; echo well`, p.path)
		p.begun()
		w.signal(syscall.SIGTERM)
		if code := w.ended(); code != exitOK {
			c.t.Errorf("dibs work ends with exit code %d", code)
		}
		c.has(c.job(1), object{"state": "completed", "result": "well"})
	})
}

func TestWorkGivesJobsBackAtTheSecondSignal(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q")
		w := c.process("q", "--shutdown", "1h", "--", "sh", "-c", stubborn, p.path)
		p.begun()
		w.signal(syscall.SIGINT)
		w.says("worker stopping")
		w.signal(syscall.SIGTERM)
		p.gone()
		w.says("stopped by a second signal")
		if code := w.ended(); code != exitInterrupted {
			c.t.Errorf("dibs work ends with exit code %d", code)
		}
		job := c.job(1) // a running claim may have taken the job too, and given it back
		c.has(job, object{"state": "waiting", "attempt": job["excused"]})
	})
}

// A program that cannot start is no fault of its job.
func TestWorkGivesJobsBackWhoseProgramsCannotBeStarted(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		script := filepath.Join(c.t.TempDir(), "script")
		write := func() {
			if err := os.WriteFile(script+".new", []byte("#!/bin/sh\necho well\n"), 0o755); err != nil {
				c.t.Fatal(err)
			}
			if err := os.Rename(script+".new", script); err != nil {
				c.t.Fatal(err)
			}
		}
		write()
		w := c.process("q", "--", script)
		w.says("worker started")
		if err := os.Remove(script); err != nil {
			c.t.Fatal(err)
		}
		c.ok("enqueue", "q", "--max-attempts", "1")
		w.says("job not started; it is given back, and claims pause")
		job := c.job(1)
		write()
		c.await("q", "completed", 1)
		w.signal(syscall.SIGTERM)
		if code := w.ended(); code != exitOK {
			c.t.Errorf("dibs work ends with exit code %d", code)
		}
		c.hasNot(job, "errors")
		job = c.job(1)
		c.has(job, object{"state": "completed", "result": "well", "excused": job["attempt"].(float64) - 1})
		c.hasNot(job, "errors")
	})
}

func TestWorkWithTooFewOpenFilesFailsNoJob(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	const n = 100
	c.feed(strings.Repeat("x\n", n), "enqueue", "q", "--lines", "--max-attempts", "1")
	cmd := c.command("work", "q", "--until-empty", "-c", "60", "--", "sleep", "0.1")
	cmd.Args = append([]string{"sh", "-c", `ulimit -n 80; exec "$0" "$@"`}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
	var err error
	if cmd.Path, err = exec.LookPath("sh"); err != nil {
		t.Fatal(err)
	}
	r := c.finished(cmd)
	if r.code != exitOK || !strings.Contains(r.err, "job not started") || !strings.Contains(r.err, "too many open files") {
		t.Errorf("exit code %d\n%.2000s", r.code, r.err)
	}
	c.has(c.stats("q"), object{"completed": n, "dead": 0})
}

func TestWorkLooksForItsProgramFirst(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	c.ok("enqueue", "q")
	for _, program := range []string{"./no-such-program", "no-such-program", c.write("script", "#!/bin/sh\n"), t.TempDir()} {
		c.fails(exitUsage, "", []string{"work", "q", "--", program}, "cannot run", program)
	}
	c.has(c.job(1), object{"state": "waiting", "attempt": 0})
}
