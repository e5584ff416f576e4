package dibs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dibs-queue/dibs"
)

// BenchmarkWorker measures the worker's own cost for each job: a handler that does
// nothing, on a store in memory.
func BenchmarkWorker(b *testing.B) {
	for _, concurrency := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("concurrency=%d", concurrency), func(b *testing.B) {
			drain(b, newMemory(), concurrency)
		})
	}
}

// mail is the payload of a small job.
type mail struct{ To, Subject, Text string }

var letter = dibs.NewJob{Kind: "mail", Payload: mail{"someone@example.com", "Welcome", strings.Repeat("x", 42)}}

// drain enqueues b.N jobs and runs a worker until all have been finished.
func drain(b *testing.B, s enqueuer, concurrency int) {
	for left := b.N; left > 0; left -= min(left, dibs.MaxBatch) {
		enqueue(b, s, slices.Repeat([]dibs.NewJob{letter}, min(left, dibs.MaxBatch))...)
	}
	w := quiet(s, nil)
	dibs.Handle(w, "mail", func(context.Context, *dibs.Job[mail]) error { return nil })
	w.Concurrency = concurrency
	done := make(chan struct{})
	var finished atomic.Int64
	w.Hooks.Finished = func(a dibs.Attempt) {
		if a.NotWritten != nil || a.Outcome.Ending != dibs.EndCompleted {
			b.Errorf("job %d: %s, %v", a.Job.ID, a.Outcome.Ending, a.NotWritten)
		}
		if finished.Add(1) == int64(b.N) {
			close(done)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	stop := run(b, w)
	<-done
	b.StopTimer()
	stopped(b, stop)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
