package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// The test program is a worker process if these are set.
const (
	envWorker = "DIBS_DEMO_WORKER"
	envFile   = "DIBS_DEMO_FILE"
)

func TestMain(m *testing.M) {
	if os.Getenv(envWorker) == "" {
		needs.Split()
		os.Exit(m.Run())
	}
	if err := workUntilStdinEnds(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func workUntilStdinEnds() error {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the end of stdin, or an error, means stop
		stop()
	}()
	db, err := sqlite.Open(ctx, os.Getenv(envFile), sqlite.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	return Work(ctx, db, os.Getenv(envWorker), filepath.Dir(os.Getenv(envFile)))
}

func config(t *testing.T, jobs int) Config {
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
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		DB: db, Jobs: jobs, Workers: 2, Dir: dir,
		Command: func(name string) *exec.Cmd {
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), envWorker+"="+name, envFile+"="+file)
			return cmd
		},
	}
}

func skipIfShort(t *testing.T) {
	t.Helper()
	needs.Long(t)
}

func TestARealRunWithAKilledProcessKeepsEveryPromise(t *testing.T) {
	needs.Race(t)
	skipIfShort(t)
	t.Parallel()
	c := config(t, 500)
	var last Progress
	c.Watch = func(p Progress) { last = p }
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Promises {
		if !p.Kept {
			t.Errorf("%s: got %d, want %d: %v", p.Text, p.Got, p.Want, p.Broken)
		}
	}
	if len(r.Recovery) == 0 || r.Attempts <= 500 {
		t.Errorf("%d jobs recovered, %d attempts: the kill did not show", len(r.Recovery), r.Attempts)
	}
	if last.Done() != 1 || len(last.Workers) != 3 || len(last.Events) < 4 {
		t.Errorf("the last progress: %+v", last)
	}
}

// TestASabotagedRunBreaksAPromise requeues a completed job during the run: the verdict must
// say that it ran twice.
func TestASabotagedRunBreaksAPromise(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	c := config(t, 500)
	var requeued []int64
	c.Watch = func(p Progress) {
		if len(requeued) > 0 || p.Stats.Completed == 0 {
			return
		}
		page, err := c.DB.List(t.Context(), dibs.Filter{Queue: Queue, State: dibs.Completed, Limit: 1})
		if err != nil {
			t.Error(err)
			return
		}
		if requeued, err = c.DB.Requeue(t.Context(), []int64{page.Jobs[0].ID}); err != nil {
			t.Error(err)
		}
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if verdict := fmt.Sprint(r.Promises); r.Kept() || len(requeued) != 1 || !strings.Contains(verdict, fmt.Sprintf("job %d was completed by", requeued[0])) {
		t.Errorf("requeued %v; the verdict: %s", requeued, verdict)
	}
}

func TestAWorkerThatCrashesEndsTheRun(t *testing.T) {
	t.Parallel()
	c := config(t, 500)
	program := c.Command("").Path
	c.Command = func(string) *exec.Cmd { return exec.Command(program, "-no-such-flag") }
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "-no-such-flag") {
		t.Fatalf("got %v, want an error that contains the worker's message", err)
	}
}

func TestARunThatIsInterruptedEndsItsWorkers(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	c := config(t, 5000)
	var started []*exec.Cmd
	command := c.Command
	c.Command = func(name string) *exec.Cmd {
		cmd := command(name)
		started = append(started, cmd)
		return cmd
	}
	c.Watch = func(p Progress) {
		if p.done() > 0 {
			stop()
		}
	}
	if _, err := Run(ctx, c); err == nil {
		t.Fatal("no error from an interrupted run")
	}
	for _, cmd := range started {
		if cmd.ProcessState == nil {
			t.Errorf("process %d still runs", cmd.Process.Pid)
		}
	}
}
