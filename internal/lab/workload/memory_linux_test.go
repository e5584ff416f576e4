package workload

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// TestMain lets the test program be the processes that workloads start.
func TestMain(m *testing.M) {
	if os.Getenv(OrderEnv) == "" {
		os.Exit(m.Run())
	}
	if err := Serve(context.Background(), os.Stdin, os.Stdout, Dibs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	memorySamples = 60  // number of samples: one each minute in an hour
	jobRate       = 500 // jobs/s
	memoryGrowth  = 1.1 // largest ratio of the last quarter to the second one
	memoryLimit   = 100 // MB
)

// A worker process that has run for an hour needs no more memory than after half an hour,
// while jobs are enqueued, completed and deleted.
func TestAWorkersMemoryStaysTheSame(t *testing.T) {
	if os.Getenv("DIBS_SOAK") == "" {
		t.Skip("takes an hour, or DIBS_SOAK_MEMORY: only with DIBS_SOAK=1")
	}
	d, err := time.ParseDuration(cmp.Or(os.Getenv("DIBS_SOAK_MEMORY"), "1h"))
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{Pool: 4, Dir: t.TempDir(), Launch: (*exec.Cmd).Start, Command: func() (*exec.Cmd, error) {
		self, err := os.Executable()
		return exec.Command(self), err
	}}
	place := Place{URL: pgtest.URL(t)}
	s, err := b.open(t.Context(), Dibs, place, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keep := d / 6
	if _, err := s.(dibsSystem).db.ChangeQueue(t.Context(), dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: &keep}.Apply); err != nil {
		t.Fatal(err)
	}
	w, err := b.spawn(t.Context(), "worker", order{System: Dibs.Name, Place: place, Pool: 16, Handlers: 2000})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	sizes := sizesUnderLoad(t, s, w, d)
	if r, err := w.end(); err != nil || r.MB > memoryLimit {
		t.Errorf("the process' largest memory was %.1f MB, %v", r.MB, err)
	}
	before, after := mean(sizes[memorySamples/4:memorySamples/2]), mean(sizes[memorySamples*3/4:])
	t.Logf("second quarter: %.1f MB, last quarter: %.1f MB", before, after)
	if after > memoryGrowth*before {
		t.Error("the process' memory grows")
	}
}

// sizesUnderLoad enqueues for d, and returns the process' size at equal intervals.
func sizesUnderLoad(t *testing.T, s System, w *worker, d time.Duration) (sizes []float64) {
	t.Helper()
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	jobs := letters(int(jobRate * every / time.Second))
	start, sent := time.Now(), 0
	t.Logf("%8s  %6s  %10s  %10s", "after", "MB", "enqueued", "completed")
	for len(sizes) < memorySamples {
		<-tick.C
		if err := s.Enqueue(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		sent += len(jobs)
		if err := w.Crashed(); err != nil {
			t.Fatal(err)
		}
		if since := time.Since(start); since >= time.Duration(len(sizes)+1)*d/memorySamples {
			sizes = append(sizes, memoryOf(w.OS.Pid, "VmRSS"))
			t.Logf("%8v  %6.1f  %10d  %10d", since.Round(time.Second), sizes[len(sizes)-1], sent, w.count.Load())
		}
	}
	if err := await(t.Context(), sent, w); err != nil {
		t.Fatal(err)
	}
	return sizes
}

func mean(list []float64) (m float64) {
	for _, v := range list {
		m += v / float64(len(list))
	}
	return m
}
