package dibs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// handler runs one attempt and returns the job's result.
type handler func(ctx context.Context, job *RawJob) (json.RawMessage, error)

// Handle registers the handler of a kind. encoding/json decodes the payload of each job
// into T. A payload that does not decode fails the attempt, and the job is retried: a
// later release of the program may understand it.
//
// What the handler returns becomes the outcome of the attempt:
//
//	nil                        completed, with the result that [RawJob.SetResult] left
//	[Snooze](d)                run again after d, not counted
//	[Retry](err)               failed; run again after the queue's backoff
//	[RetryAfter](d, err)       failed; run again after d
//	[Die](err)                 failed for good
//	[Release]()                given back unrun, not counted
//	[ErrNotStarted]            given back unrun, not counted, and the worker pauses its claims
//	[ErrFinished]              nothing: the handler finished the job in its own transaction
//	any other error, a panic   failed; run again after the queue's backoff
//
// Wrapped errors work too. Any other error after ctx has ended means what the cause of
// its end says: see [ErrCancelled], [ErrJobTimeout] and [ErrShutdown]. A handler that had
// failed earlier, for a reason of its own, returns [Retry] or one of the others above.
//
// ctx ends when the job is cancelled, when it times out, and when the worker loses it:
// shortly before its lease ends. A handler has to stop then: nothing else can stop it,
// and until it returns it counts towards Concurrency.
//
// Handlers that return run one after the other on the same goroutine: one that locks its
// thread ([runtime.LockOSThread]) or labels its goroutine has to undo that.
//
// Handle panics when the worker or f is nil, or the kind is empty or has a handler already.
func Handle[T any](w *Worker, kind string, f func(ctx context.Context, job *Job[T]) error) {
	if kind == "" {
		panic("dibs: Handle needs a kind; HandleRaw can take all kinds")
	}
	w.register(kind, f == nil, func(ctx context.Context, raw *RawJob) (json.RawMessage, error) {
		job, err := decode[T](raw)
		if err != nil {
			return nil, err
		}
		err = f(ctx, job)
		return job.Result, err
	})
}

// HandleRaw registers a handler that gets the payload as it was enqueued. An empty
// kind makes it the handler of every kind that has none of its own; the worker
// then claims jobs of all kinds. For the rest see [Handle].
func (w *Worker) HandleRaw(kind string, f func(ctx context.Context, job *RawJob) error) {
	w.register(kind, f == nil, func(ctx context.Context, raw *RawJob) (json.RawMessage, error) {
		job := *raw // the handler's own: the worker goes on reading raw
		job.Result = nil
		err := f(ctx, &job)
		return job.Result, err
	})
}

func (w *Worker) register(kind string, missing bool, h handler) {
	switch {
	case w == nil:
		panic(fmt.Sprintf("dibs: the worker to handle kind %q is nil", kind))
	case missing:
		panic(fmt.Sprintf("dibs: the handler of kind %q is nil", kind))
	case w.handlers[kind] != nil:
		panic(fmt.Sprintf("dibs: kind %q has a handler already", kind))
	}
	if w.handlers == nil {
		w.handlers = make(map[string]handler)
	}
	w.handlers[kind] = h
}

// decode is the job with its payload decoded into T.
func decode[T any](raw *RawJob) (*Job[T], error) {
	job := &Job[T]{RawJob: *raw} // the handler's own: the worker goes on reading raw
	if err := json.Unmarshal(raw.Payload, &job.Payload); err != nil {
		return nil, fmt.Errorf("payload of job %d (kind %q) does not decode into %T: %w", raw.ID, raw.Kind, job.Payload, err)
	}
	return job, nil
}

// SetResult encodes v as JSON and keeps it as the job's result, in place of what
// an earlier call set. It is stored if the handler returns nil. The error Is
// ErrInvalid if v cannot be encoded or is longer than MaxResult.
func (j *RawJob) SetResult(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return &InvalidError{"result", fmt.Sprintf("cannot be encoded as JSON: %v", err)}
	}
	if err := checkResult(raw); err != nil {
		return err
	}
	j.Result = raw
	return nil
}

// checkResult finds results that every store refuses: one of them would have the whole
// batch refused that it is written with.
func checkResult(raw json.RawMessage) error {
	switch {
	case len(raw) == 0:
		return nil
	case len(raw) > MaxResult:
		return &InvalidError{"result", fmt.Sprintf("is %d bytes, the limit is %d", len(raw), MaxResult)}
	case !utf8.Valid(raw) || !json.Valid(raw):
		return &InvalidError{"result", "is not valid JSON"}
	}
	return nil
}

// verdict is an error by which a handler chooses the outcome.
type verdict struct {
	ending Ending
	delay  *time.Duration
	err    error
}

func (v *verdict) Error() string {
	text := string(v.ending)
	if v.delay != nil {
		text += fmt.Sprintf(" after %v", *v.delay)
	}
	if v.err != nil {
		text += fmt.Sprintf(": %v", v.err)
	}
	return text
}

func (v *verdict) Unwrap() error { return v.err }

// Snooze, returned by a handler, puts its job off for d, 0 to MaxDelay, without
// counting the attempt.
func Snooze(d time.Duration) error {
	d = min(max(d, 0), MaxDelay)
	return &verdict{ending: EndSnooze, delay: &d}
}

// Retry, returned by a handler, fails the attempt with err and has the job run again after the
// queue's backoff. err alone does so too, but only while the handler's context lasts: after
// that it counts as a consequence of the context's end.
func Retry(err error) error { return &verdict{ending: EndRetry, err: err} }

// RetryAfter, returned by a handler, fails the attempt with err and has the job
// run again after d, 0 to MaxDelay, instead of the queue's backoff.
func RetryAfter(d time.Duration, err error) error {
	d = min(max(d, 0), MaxDelay)
	return &verdict{ending: EndRetry, delay: &d, err: err}
}

// Die, returned by a handler, ends its job as dead, whatever attempts are left.
func Die(err error) error { return &verdict{ending: EndDead, err: err} }

// Release, returned by a handler, gives the job back unrun, at once and in its old
// place, without counting the attempt. It may be claimed again at once: to put it off,
// return Snooze.
func Release() error { return &verdict{ending: EndRelease} }
