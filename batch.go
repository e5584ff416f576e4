package dibs

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// HandleBatch registers a handler that takes up to max jobs of a kind in one call, for work
// that is cheaper together, such as an insert or a mailing. A call begins when max jobs have
// come, or wait after the first of them. Each job still counts towards Concurrency, so that
// limits the size of a batch too.
//
// f returns an error for each job, in their order, which means what it does for [Handle]; nil
// in place of the list completes all of them. If f panics, or returns a list of another
// length, all attempts have failed. ctx ends when the contexts of all jobs of the batch have:
// one that was cancelled or lost does not disturb the others, and the outcome that f gives it
// is refused.
//
// HandleBatch panics as Handle does, and if max is less than 1 or wait is negative.
func HandleBatch[T any](w *Worker, kind string, max int, wait time.Duration, f func(ctx context.Context, jobs []*Job[T]) []error, options ...KindOptions) {
	if max < 1 || wait < 0 {
		panic(fmt.Sprintf("dibs: a batch of kind %q needs max to be at least 1 and wait not to be negative, got %d and %v", kind, max, wait))
	}
	if f == nil {
		Handle[T](w, kind, nil, options...)
		return
	}
	b := &batcher[T]{max: max, wait: wait, f: f}
	Handle(w, kind, b.handle, options...)
}

// batcher gathers the jobs of a kind.
type batcher[T any] struct {
	max  int
	wait time.Duration
	f    func(ctx context.Context, jobs []*Job[T]) []error

	mu        sync.Mutex
	gathering *batch[T] // the next batch; nil: no job waits
}

// batch is jobs that are handled in one call, on a goroutine of its own: each of its jobs may
// leave while it gathers.
type batch[T any] struct {
	members []*member[T]
	full    chan struct{} // closed when no more jobs may come
	done    chan struct{} // closed when the call has ended
	begun   bool          // no member may leave any more
}

// member is a job of a batch.
type member[T any] struct {
	ctx context.Context
	job *Job[T]
	err error
}

func (b *batcher[T]) handle(ctx context.Context, job *Job[T]) error {
	m := &member[T]{ctx: ctx, job: job}
	own, first := b.join(m)
	if first {
		go b.run(own)
	}
	select {
	case <-own.done:
	case <-ctx.Done():
		if b.leave(own, m) {
			return ctx.Err()
		}
		<-own.done
	}
	return m.err
}

// join adds a job to the batch that is gathering, or begins one.
func (b *batcher[T]) join(m *member[T]) (own *batch[T], first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if first = b.gathering == nil; first {
		b.gathering = &batch[T]{full: make(chan struct{}), done: make(chan struct{})}
	}
	own = b.gathering
	if own.members = append(own.members, m); len(own.members) == b.max {
		close(own.full)
		b.gathering = nil
	}
	return own, first
}

// leave takes a job whose context has ended out of a batch that has not begun.
func (b *batcher[T]) leave(own *batch[T], m *member[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own.begun {
		return false
	}
	m.job = nil
	return true
}

// begin returns the jobs that are still in the batch.
func (b *batcher[T]) begin(own *batch[T]) (members []*member[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own.begun = true; b.gathering == own {
		b.gathering = nil
	}
	for _, m := range own.members {
		if m.job != nil && m.ctx.Err() == nil {
			members = append(members, m)
		} else {
			m.err = context.Cause(m.ctx)
		}
	}
	return members
}

// run waits for more jobs, and handles the batch.
func (b *batcher[T]) run(own *batch[T]) {
	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	select {
	case <-own.full:
	case <-timer.C:
	}
	members := b.begin(own)
	if len(members) == 0 {
		close(own.done)
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(members[0].ctx))
	defer cancel(nil)
	jobs := make([]*Job[T], len(members))
	var left atomic.Int64
	left.Store(int64(len(members)))
	for i, m := range members {
		jobs[i] = m.job
		defer context.AfterFunc(m.ctx, func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(m.ctx))
			}
		})()
	}
	failed := errGoexit
	var errs []error
	defer func() {
		if p := recover(); p != nil {
			failed = &panicError{value: p, stack: trim(string(debug.Stack()))}
		}
		for i, m := range members {
			if m.err = failed; failed == nil && errs != nil {
				m.err = errs[i]
			}
		}
		close(own.done)
	}()
	errs = b.f(ctx, jobs)
	if failed = nil; errs != nil && len(errs) != len(jobs) {
		failed = fmt.Errorf("the handler of a batch of %d jobs returned %d errors", len(jobs), len(errs))
	}
}
