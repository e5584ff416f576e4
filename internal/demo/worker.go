package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-queue/dibs"
)

// concurrency is how many jobs each worker process runs at once.
const concurrency = 8

// Work is what a worker process of the demo does: it runs jobs until ctx ends, and
// writes down every attempt.
func Work(ctx context.Context, store dibs.Store, name, history string) error {
	rec, err := NewRecorder(history, name)
	if err != nil {
		return err
	}
	w := &dibs.Worker{
		Store: store, Queue: Queue, Name: name, Concurrency: concurrency,
		// Attempts that fail are part of the show; what is wrong with the database is not.
		Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler), Error: report(name)},
	}
	w.Hooks.Finished = func(a dibs.Attempt) {
		if a.NotWritten != nil {
			return
		}
		if err := rec.Written(a.Job); err != nil {
			slog.Error("history not written", "worker", name, "error", err)
		}
	}
	dibs.Handle(w, Kind, func(ctx context.Context, job *dibs.Job[Payload]) error {
		if err := rec.Began(job); err != nil {
			return err
		}
		err := handle(ctx, job)
		return errors.Join(err, rec.Returned(job, err == nil))
	})
	return errors.Join(w.Run(ctx), rec.Close())
}

func handle(ctx context.Context, job *dibs.Job[Payload]) error {
	done := time.NewTimer(time.Duration(job.Payload.Millis) * time.Millisecond)
	defer done.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-done.C:
	}
	if job.Attempt <= job.Payload.Failures {
		return fmt.Errorf("this job fails on purpose (attempt %d)", job.Attempt)
	}
	return nil
}

// report writes the worker's database errors where the demo keeps its stderr.
func report(name string) func(call string, err error) {
	return func(call string, err error) {
		slog.Warn("database call failed; repeating it", "worker", name, "call", call, "error", err)
	}
}
