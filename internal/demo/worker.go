package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

// concurrency is how many jobs each worker process runs at once.
const concurrency = 8

// Work is what a worker process of the demo does: it runs jobs until ctx ends, and
// writes down in dir what it asks the database and is told.
func Work(ctx context.Context, db dibs.Database, name, dir string) error {
	rec, err := history.OpenIn(dir, name)
	if err != nil {
		return err
	}
	w := &dibs.Worker{
		Store: history.Wrap(db, rec), Queue: Queue, Name: name, Concurrency: concurrency,
		// Attempts that fail are part of the show; what is wrong with the database is not.
		Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler), Error: report(name)},
	}
	w.HandleRaw("", handle) // all kinds: the order of claims for some kinds only is not judged
	return errors.Join(w.Run(ctx), rec.Close())
}

func handle(ctx context.Context, job *dibs.RawJob) error {
	var do Payload
	if err := json.Unmarshal(job.Payload, &do); err != nil {
		return dibs.Die(err)
	}
	done := time.NewTimer(time.Duration(do.Millis) * time.Millisecond)
	defer done.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-done.C:
	}
	if job.Attempt <= do.Failures {
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
