package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// A worker process needs as much memory for many jobs as for few.
func TestAWorkersMemoryDoesNotGrowWithTheQueue(t *testing.T) {
	needs.Long(t)
	needs.NoRaceDetector(t)
	t.Parallel()
	const few, many = 10_000, 100_000
	const growth = 1.5 // with a page cache of 64 MiB the memory grew by a factor of 3
	small, large := memoryOfADrain(t, few), memoryOfADrain(t, many)
	t.Logf("largest memory of a worker process: %d kB with %d jobs, %d kB with %d", small, few, large, many)
	if float64(large) > growth*float64(small) {
		t.Error("the process' memory grows with the number of jobs")
	}
}

// memoryOfADrain is the largest resident memory, in kB, of a process that works off n jobs.
func memoryOfADrain(t *testing.T, n int) (kB int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	jobs := newJobs(1_000)
	for range n / len(jobs) {
		if _, err := s.Enqueue(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
	}
	cmd, lines := start(t, self(t), "drain", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines.Scan()
	line := lines.Text()
	if err := cmd.Wait(); err != nil {
		t.Fatal(line, err)
	}
	var completed int
	if _, err := fmt.Sscan(line, &completed, &kB); err != nil || completed != n {
		t.Fatalf("the process completed %d jobs, %v: %s", completed, err, line)
	}
	return kB
}

func init() { parts["drain"] = drainAll }

// drainAll works until nothing is left; it prints how many jobs it has completed, and the
// largest resident memory that it needed, in kB.
func drainAll(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	stats, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var completed atomic.Int64
	w := &dibs.Worker{Store: s}
	w.Hooks.Log = slog.New(slog.DiscardHandler)
	w.Hooks.Finished = func(a dibs.Attempt) {
		if a.Outcome.Ending == dibs.EndCompleted && completed.Add(1) == stats[0].Waiting {
			stop()
		}
	}
	w.HandleRaw("email", func(context.Context, *dibs.RawJob) error { return nil })
	if err := errors.Join(w.Run(ctx), s.Close()); err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, hwm, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println(completed.Load(), strings.Fields(hwm)[0])
	return nil
}
