package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// concurrency is how many jobs each worker process runs at once.
const concurrency = 8

// Work is the work of one of the demo's processes: it runs jobs until ctx ends, and records
// its calls of the database and their answers in dir.
func Work(ctx context.Context, db dibs.Database, name, dir string) error {
	rec, err := history.OpenIn(dir, name)
	if err != nil {
		return err
	}
	w := &dibs.Worker{
		Store: history.Wrap(db, rec), Queue: Queue, Name: name, Concurrency: concurrency,
		// Attempts fail on purpose and are not reported, but errors of the database are.
		Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler), Error: reportErrors(name)},
	}
	w.HandleRaw("", handle) // it claims all kinds, since the judge checks the order only of such claims
	return errors.Join(w.Run(ctx), rec.Close())
}

func handle(ctx context.Context, job *dibs.RawJob) error {
	var payload Payload
	if err := json.Unmarshal(job.Payload, &payload); err != nil {
		return dibs.Die(err)
	}
	timer := time.NewTimer(time.Duration(payload.Millis) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	}
	if job.Attempt <= payload.Failures {
		return fmt.Errorf("this job fails on purpose (attempt %d)", job.Attempt)
	}
	return nil
}

// reportErrors logs the worker's database errors to stderr, which the demo keeps.
func reportErrors(name string) func(call string, err error) {
	return func(call string, err error) {
		slog.Warn("database call failed; repeating it", "worker", name, "call", call, "error", err)
	}
}
