package dibs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// KindOptions are settings of one kind of job. Zero fields change nothing.
type KindOptions struct {
	// Queue is where [Kind.New] puts its jobs; default DefaultQueue. A worker with a handler of
	// the kind that does not serve this queue logs a warning; if it serves the queue of none of
	// its kinds, Run returns an error.
	Queue string
	// MaxAttempts is how many counted attempts a job of the kind has. A worker ends a job as
	// dead after so many, even if it was enqueued with more.
	MaxAttempts int
	// Timeout takes the place of Worker.JobTimeout; negative: none. The JobTimeout of the queue
	// holds all the same.
	Timeout time.Duration
	// Backoff is the delay after the n-th counted attempt, which failed with err, instead of
	// the queue's. [Backoff.After] is one.
	Backoff func(n int, err error) time.Duration
	// IsFailure reports whether an error is a failure of the job. After one that is not, such
	// as that another service is busy, the attempt is not counted and the job runs again after
	// the backoff. It is asked where the handler leaves the outcome to the queue: not about
	// [Die], [RetryAfter] and so on.
	IsFailure func(err error) bool
}

// After is Delay with a random u. It may be a [KindOptions].Backoff.
func (b Backoff) After(n int, _ error) time.Duration { return b.Delay(n, 2*rand.Float64()-1) }

// check refuses options that no store would take, before a worker runs with them.
func (o *KindOptions) check() error {
	if o.MaxAttempts < 0 {
		return &InvalidError{"max_attempts", fmt.Sprintf("must not be negative, got %d", o.MaxAttempts)}
	}
	return nil
}

// Kind ties a kind of job to the type of its payload, so that the compiler finds a wrong one.
// Make it once, with [NewKind], where both who enqueues and who handles can see it.
type Kind[T any] struct {
	name    string
	options KindOptions
}

// NewKind makes a Kind. It panics if the name is empty or the options are invalid, as that is
// an error in the program.
func NewKind[T any](name string, o KindOptions) Kind[T] {
	if name == "" {
		panic("dibs: NewKind needs a name")
	}
	if err := o.check(); err != nil {
		panic(fmt.Sprintf("dibs: kind %q: %v", name, err))
	}
	return Kind[T]{name, o}
}

// Name is the kind's name.
func (k Kind[T]) Name() string { return k.name }

// New is a job of the kind, as options such as [InGroup] change it, in their order; nil ones do
// nothing. Its other fields may be set before it is enqueued.
func (k Kind[T]) New(payload T, options ...func(*NewJob)) NewJob {
	j := NewJob{Queue: k.options.Queue, Kind: k.name, Payload: payload, MaxAttempts: k.options.MaxAttempts}
	for _, change := range options {
		if change != nil {
			change(&j)
		}
	}
	return j
}

// Enqueuer is what enqueues: a Database or a Tx.
type Enqueuer interface {
	Enqueue(ctx context.Context, jobs []NewJob) ([]Enqueued, error)
}

// EnqueueFunc is the Enqueue of a Database or a Tx. The method Use of the stores puts middleware
// around it.
type EnqueueFunc func(ctx context.Context, jobs []NewJob) ([]Enqueued, error)

// Enqueue enqueues one job of the kind, with the options that New takes.
func (k Kind[T]) Enqueue(ctx context.Context, to Enqueuer, payload T, options ...func(*NewJob)) (Enqueued, error) {
	if to == nil {
		return Enqueued{}, &InvalidError{"to", "is nil; give a Database or a Tx"}
	}
	done, err := to.Enqueue(ctx, []NewJob{k.New(payload, options...)})
	if err != nil {
		return Enqueued{}, err
	}
	return done[0], nil
}

// Handle registers the handler of the kind: see the function [Handle].
func (k Kind[T]) Handle(w *Worker, f func(ctx context.Context, job *Job[T]) error) {
	Handle(w, k.name, f, k.options)
}

// HandleBatch registers a batch handler of the kind: see the function [HandleBatch].
func (k Kind[T]) HandleBatch(w *Worker, max int, wait time.Duration, f func(ctx context.Context, jobs []*Job[T]) []error) {
	HandleBatch(w, k.name, max, wait, f, k.options)
}

// Schedule is a schedule of such jobs; its other fields may be set before it is stored.
func (k Kind[T]) Schedule(name, spec string, payload T) Schedule {
	return Schedule{Name: name, Spec: spec, Queue: k.options.Queue, Kind: k.name, Payload: payload, MaxAttempts: k.options.MaxAttempts}
}

// kindHandler is a handler with the options of its kind.
type kindHandler struct {
	KindOptions
	run Handler
	// timedOut is the cause that ends a handler's context after its timeout.
	timedOut error
}

// withDefaults fills in what the worker says about all kinds.
func (k kindHandler) withDefaults(w *Worker) *kindHandler {
	if k.Timeout == 0 {
		k.Timeout = w.JobTimeout
	}
	k.timedOut = fmt.Errorf("%w of %v", ErrJobTimeout, k.Timeout)
	return &k
}

// settle changes the outcome of a failed attempt as the kind's options say.
func (k *kindHandler) settle(job *RawJob, o Outcome, err error) (settled Outcome) {
	if o.Ending != EndRetry || o.Delay != nil {
		return k.limit(job, o)
	}
	defer func() {
		if p := recover(); p != nil {
			o.Error = fmt.Sprintf("%s (and the options of kind %q panicked: %v)", o.Error, job.Kind, p)
			settled = k.limit(job, o)
		}
	}()
	n := job.Attempt - job.Excused
	delay := k.Backoff
	if k.IsFailure != nil && !k.IsFailure(err) {
		if delay == nil {
			delay = DefaultSettings("").Backoff.After
		}
		d := min(max(delay(n, err), 0), MaxDelay)
		return Outcome{ID: o.ID, Token: o.Token, Ending: EndSnooze, Delay: &d}
	}
	if delay != nil {
		d := min(max(delay(n, err), 0), MaxDelay)
		o.Delay = &d
	}
	return k.limit(job, o)
}

// limit ends a job that has had all attempts of its kind.
func (k *kindHandler) limit(job *RawJob, o Outcome) Outcome {
	if o.Ending == EndRetry && k.MaxAttempts > 0 && job.Attempt-job.Excused >= k.MaxAttempts {
		o.Ending, o.Delay = EndDead, nil
	}
	return o
}
