package reads

import (
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Workers lists the register of workers.
func (c Calls) Workers(ctx context.Context) ([]dibs.WorkerInfo, error) {
	return list(ctx, c, "workers", nil, worker, "workers", dibs.WorkerLostAfter.Microseconds())
}

func worker(w *dibs.WorkerInfo) []any {
	return []any{Token(&w.ID), &w.Name, &w.Host, &w.PID, &w.Version, Names(&w.Queues), Names(&w.Kinds), &w.Concurrency, &w.State, Time(&w.Since), Time(&w.Seen)}
}

// kindsLook is how many jobs DueKinds looks at.
const kindsLook = 1000

// DueKinds lists the kinds of due jobs.
func (c Calls) DueKinds(ctx context.Context, queue string) ([]string, error) {
	return list(ctx, c, "due kinds", checks.Name("queue", queue), func(kind *string) []any { return []any{kind} }, "due_kinds", queue, kindsLook)
}
