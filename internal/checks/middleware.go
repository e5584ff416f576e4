package checks

import (
	"context"
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs"
)

// Middleware is what a program has put around the Enqueue of a store; the first is outermost.
type Middleware []func(next dibs.EnqueueFunc) dibs.EnqueueFunc

// Use adds middleware, as the method Use of the stores says.
func (m *Middleware) Use(f func(next dibs.EnqueueFunc) dibs.EnqueueFunc) {
	if m == nil || f == nil {
		panic("dibs: Use needs a store and a function")
	}
	*m = append(*m, f)
}

// Enqueue calls the middleware with a copy of the jobs, and last innermost.
func (m *Middleware) Enqueue(ctx context.Context, jobs []dibs.NewJob, last dibs.EnqueueFunc) ([]dibs.Enqueued, error) {
	if m == nil || len(*m) == 0 {
		return last(ctx, jobs)
	}
	if err := Context(ctx); err != nil {
		return nil, err
	}
	for _, f := range slices.Backward(*m) {
		if last = f(last); last == nil {
			return nil, &dibs.InvalidError{Field: "store.middleware", Reason: "returned no function"}
		}
	}
	done, err := last(ctx, slices.Clone(jobs))
	if err == nil && len(done) != len(jobs) {
		return nil, Failed("enqueue", fmt.Errorf("middleware returned %d results for %d jobs; they may be enqueued", len(done), len(jobs)))
	}
	return done, err
}
