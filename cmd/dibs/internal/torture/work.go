package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// concurrency is how many handlers a dibs.Worker runs at once.
const concurrency = 40

// work serves queues until ctx ends: some with dibs' worker, the others with direct calls,
// which also break the rules, half of these over HTTP. Together the processes serve each queue in
// both ways.
func (c *client) work(ctx context.Context) error {
	each := max(2, (len(queues)+c.Of-1)/c.Of) // how many queues a process serves in each way
	var parts []func(context.Context) error
	for i := range each {
		q := queues[(c.Seat+i)%len(queues)]
		var handle dibs.Handler // nil: this process runs the jobs itself
		if i%2 == 1 {
			handle = c.Lines
		}
		parts = append(parts, func(ctx context.Context) error { return c.runWorker(ctx, c.tortured(q, i == 0), handle) })
		q2 := queues[(c.Seat+each+i)%len(queues)]
		store := c.store
		if (c.Seat+i)%2 == 1 {
			store = c.overHTTP
		}
		parts = append(parts, func(ctx context.Context) error { return c.runClaimer(ctx, store, q2) })
	}
	return runAll(ctx, append(parts, c.serve)...)
}

// tortured is a worker of dibs for a queue. With resume it takes back the jobs of the process before it.
func (c *client) tortured(queue string, resume bool) *dibs.Worker {
	name := c.Client + "-" + queue
	if resume {
		name = c.Name + "-" + queue
	}
	return &dibs.Worker{Queue: queue, Name: name, Resume: resume, Concurrency: concurrency}
}

// runWorker runs dibs' worker. A handle of nil stands for the client's own.
func (c *client) runWorker(ctx context.Context, w *dibs.Worker, handle dibs.Handler) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w.Store, w.ShutdownWait = c.store, lease
	w.Hooks = dibs.Hooks{
		Log: slog.New(slog.DiscardHandler),
		Error: func(call string, err error) {
			if unexpected(err) != nil {
				stop(fmt.Errorf("%s: %w", call, err))
			}
		},
	}
	rng := &lockedRand{rng: c.newRand()}
	if handle == nil {
		handle = func(ctx context.Context, job *dibs.RawJob) error { return c.handle(ctx, rng.split(), job) }
	}
	w.HandleRaw("", handle)
	err := w.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	return err
}

// lockedRand gives each handler its own random source.
type lockedRand struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (d *lockedRand) split() *rand.Rand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return rand.New(rand.NewPCG(d.rng.Uint64(), d.rng.Uint64()))
}

var errOnPurpose = errors.New("failed on purpose")

// handle runs a job for a random time and ends it at random.
func (c *client) handle(ctx context.Context, rng *rand.Rand, job *dibs.RawJob) error {
	if c.hasSteps(job) {
		if err := doStep(ctx, job, "first"); err != nil {
			return err
		}
	}
	switch n := rng.IntN(200); {
	case n == 0:
		wait(ctx, lease+lease/4) // longer than the lease, which the worker extends
	case n < 20:
		wait(ctx, time.Duration(rng.IntN(50))*time.Millisecond)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.hasSteps(job) {
		if err := doStep(ctx, job, "second"); err != nil {
			return err
		}
	}
	job.Add(c.added(rng)...)
	delay := time.Duration(rng.IntN(300)) * time.Millisecond
	switch n := rng.IntN(100); {
	case n < 4:
		return errOnPurpose
	case n < 6:
		return dibs.RetryAfter(delay, errOnPurpose)
	case n < 9:
		return dibs.Snooze(delay)
	case n < 11:
		return dibs.Release()
	case n < 12:
		return dibs.Die(errOnPurpose)
	case n < 17 && c.Adopted == "":
		done, err := c.finishTx(ctx, rng, []*dibs.RawJob{job})
		switch {
		case err != nil:
			return dibs.Die(err)
		case done:
			return dibs.ErrFinished
		}
		return errOnPurpose // if the commit took effect without an answer, this is refused
	}
	return nil
}

// finishTx completes jobs and writes their effects in one transaction. It returns whether
// the transaction is certainly committed.
func (c *client) finishTx(ctx context.Context, rng *rand.Rand, jobs []*dibs.RawJob) (bool, error) {
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Complete(nil)
		outcomes[i].Add = c.added(rng)
	}
	return c.inTx(ctx, rng, func(t *sql.Tx, tx dibs.Tx) error {
		for _, j := range jobs {
			if err := c.effect(ctx, t, j.ID); err != nil {
				return err
			}
			if err := c.stepIn(ctx, tx, j); err != nil {
				return err
			}
		}
		return tx.Finish(ctx, outcomes)
	})
}
