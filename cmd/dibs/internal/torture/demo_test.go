package torture

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

func demoConfig(t *testing.T, jobs int) Config {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "demo.db")
	db, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return Config{About: About{Workers: 2, Duration: 2 * time.Minute, Jobs: jobs}, DB: db, URL: "sqlite:" + file, Dir: dir, Processes: testProcesses{}}
}

func TestARealRunWithAKilledProcessKeepsEveryPromise(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	t.Parallel()
	c := demoConfig(t, 500)
	var last Progress
	c.Watch = func(p Progress) { last = p }
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Rows() {
		if !p.Kept {
			t.Errorf("%s: got %d, want %d: %v", p.Text, p.Got, p.Want, p.Broken)
		}
	}
	if len(r.Demo.Recovery) == 0 || r.Demo.Attempts <= 500 {
		t.Errorf("%d jobs recovered, %d attempts: the kill did not show", len(r.Demo.Recovery), r.Demo.Attempts)
	}
	if last.Done() != 1 || len(last.Workers) != 3 || len(last.Notes) < 4 {
		t.Errorf("the last progress: %+v", last)
	}
}

// TestASabotagedRunBreaksAPromise requeues a completed job during the run: the verdict must
// say that it ran twice.
func TestASabotagedRunBreaksAPromise(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	c := demoConfig(t, 500)
	var requeued []int64
	c.Watch = func(p Progress) {
		if len(requeued) > 0 || p.Counts().Completed == 0 {
			return
		}
		page, err := c.DB.List(t.Context(), admin.Filter{Queue: demoQueue, State: dibs.Completed, Limit: 1})
		if err != nil {
			t.Error(err)
			return
		}
		if requeued, err = c.DB.Requeue(t.Context(), []int64{page.Jobs[0].ID}, time.Time{}); err != nil {
			t.Error(err)
		}
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if verdict := fmt.Sprint(r.Rows()); r.Kept() || len(requeued) != 1 || !strings.Contains(verdict, fmt.Sprintf("job %d was completed by", requeued[0])) {
		t.Errorf("requeued %v; the verdict: %s", requeued, verdict)
	}
}

// started starts the processes of a run by another command, and keeps their commands.
type started struct {
	testProcesses
	command  func(Part, string) (*exec.Cmd, error)
	commands []*exec.Cmd
}

func (s *started) Command(p Part, url string) (*exec.Cmd, error) {
	cmd, err := s.command(p, url)
	s.commands = append(s.commands, cmd)
	return cmd, err
}

func TestAWorkerThatCrashesEndsTheRun(t *testing.T) {
	t.Parallel()
	c := demoConfig(t, 500)
	c.Processes = &started{command: func(Part, string) (*exec.Cmd, error) { return exec.Command(os.Args[0], "-no-such-flag"), nil }}
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "-no-such-flag") {
		t.Fatalf("got %v, want an error that contains the worker's message", err)
	}
}

func TestARunThatIsInterruptedEndsItsWorkers(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	c := demoConfig(t, 5000)
	processes := &started{command: testProcesses{}.Command}
	c.Processes = processes
	c.Watch = func(p Progress) {
		if p.Ended() > 0 {
			stop()
		}
	}
	if _, err := Run(ctx, c); err == nil {
		t.Fatal("no error from an interrupted run")
	}
	for _, cmd := range processes.commands {
		if cmd.ProcessState == nil {
			t.Errorf("process %d still runs", cmd.Process.Pid)
		}
	}
}
