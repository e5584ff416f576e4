package dibs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs/internal/nesting"
)

// Handler runs one attempt of a job, as [Handle] explains. The job is the attempt's own copy:
// what [RawJob.SetResult] leaves in it is the result.
type Handler func(ctx context.Context, job *RawJob) error

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
//	[ErrCancelled]             cancelled: the job is not needed any more
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
// Options, if given, are those of the kind; the last ones count.
//
// Handle panics when the worker or f is nil, the kind is empty or has a handler already, or the
// options are invalid.
func Handle[T any](w *Worker, kind string, f func(ctx context.Context, job *Job[T]) error, options ...KindOptions) {
	if kind == "" {
		panic("dibs: Handle needs a kind; HandleRaw can take all kinds")
	}
	if f == nil {
		w.register(kind, nil, options)
		return
	}
	w.register(kind, func(ctx context.Context, raw *RawJob) error {
		job, err := decode[T](raw)
		if err != nil {
			return err
		}
		err = f(ctx, job)
		raw.Result = job.Result
		return err
	}, options)
}

// HandleRaw registers a handler that gets the payload as it was enqueued. An empty
// kind makes it the handler of every kind that has none of its own; the worker
// then claims jobs of all kinds. For the rest see [Handle].
func (w *Worker) HandleRaw(kind string, f func(ctx context.Context, job *RawJob) error, options ...KindOptions) {
	w.register(kind, f, options)
}

func (w *Worker) register(kind string, f Handler, options []KindOptions) {
	switch {
	case w == nil:
		panic(fmt.Sprintf("dibs: the worker to handle kind %q is nil", kind))
	case f == nil:
		panic(fmt.Sprintf("dibs: the handler of kind %q is nil", kind))
	case w.handlers[kind] != nil:
		panic(fmt.Sprintf("dibs: kind %q has a handler already", kind))
	}
	if w.handlers == nil {
		w.handlers, w.runs = make(map[string]*kindHandler), &runs{all: make(map[*run]bool)}
	}
	h := &kindHandler{run: f}
	for _, o := range options {
		if err := o.check(); err != nil {
			panic(fmt.Sprintf("dibs: kind %q: %v", kind, err))
		}
		h.KindOptions = o
	}
	w.handlers[kind] = h
}

// Use puts middleware around every handler of the worker: f gets the next handler and returns
// one that calls it, with the same job. What was given first is outermost, and sees the error
// that means the outcome. A handler that panics does so through it. Call Use before Run.
func (w *Worker) Use(f func(next Handler) Handler) {
	if w == nil || f == nil {
		panic("dibs: Use needs a worker and a function")
	}
	w.middleware = append(w.middleware, f)
}

// around puts the middleware around a handler.
func (w *Worker) around(h Handler) (Handler, error) {
	for _, f := range slices.Backward(w.middleware) {
		if h = f(h); h == nil {
			return nil, &InvalidError{"worker.middleware", "returned no handler"}
		}
	}
	return h, nil
}

// decode is the job with its payload decoded into T.
func decode[T any](raw *RawJob) (*Job[T], error) {
	job := &Job[T]{RawJob: *raw}
	if err := json.Unmarshal(raw.Payload, &job.Payload); err != nil {
		if !json.Valid(raw.Payload) { // only SQL by hand can leave that
			return nil, Die(fmt.Errorf("not run: its column payload is not valid JSON: %w", err))
		}
		return nil, fmt.Errorf("payload of job %d (kind %q) does not decode into %T: %w", raw.ID, raw.Kind, job.Payload, err)
	}
	return job, nil
}

// SetResult encodes v as JSON and keeps it as the job's result, in place of what
// an earlier call set. It is stored if the handler returns nil. The error Is
// ErrInvalid if v cannot be encoded, is longer than MaxResult, or is nested deeper than MaxDepth.
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

// Add enqueues jobs with the end of this attempt: in the very write that completes it, if the handler returns nil or calls
// FinishIn, and not otherwise. What comes after the job comes after them too. Their After may name them by their Refs, within one
// attempt. At most MaxBatch jobs; if one is invalid, the attempt fails, and its error says why.
func (j *RawJob) Add(jobs ...NewJob) {
	if j.handling == nil {
		j.handling = &handling{}
	}
	j.handling.mu.Lock()
	defer j.handling.mu.Unlock()
	j.handling.added = append(j.handling.added, jobs...)
}

// toAdd is what Add was given.
func (h *handling) toAdd() []NewJob {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.added)
}

// complete is the outcome of the attempt if it is completed, with what the handler has added.
func (j *RawJob) complete() Outcome {
	o := j.Lease().Complete(j.Result)
	if j.handling != nil {
		o.Add = j.handling.toAdd()
	}
	return o
}

// checkResult finds results that every store refuses: one of them would have the whole
// batch refused that it is written with.
func checkResult(raw json.RawMessage) error {
	switch {
	case len(raw) == 0:
		return nil
	case len(raw) > MaxResult:
		return &InvalidError{"result", fmt.Sprintf("is %d bytes, the limit is %d", len(raw), MaxResult)}
	case nesting.Over(raw, MaxDepth):
		return &InvalidError{"result", fmt.Sprintf("is nested more than %d deep", MaxDepth)}
	case !utf8.Valid(raw) || !json.Valid(raw):
		return &InvalidError{"result", "is not valid JSON"}
	}
	return nil
}

// FinishIn completes the job in the handler's own transaction: effects that are written there
// happen exactly once. result becomes the job's result, unless it is nil. After the commit the
// handler returns nil. If it returns an error instead, the attempt ends as that says, so the
// transaction must have been rolled back. On an error of FinishIn, roll back and return it.
func (j *RawJob) FinishIn(ctx context.Context, tx Tx, result any) error {
	if tx == nil {
		return &InvalidError{"tx", "is nil; give what a store's Tx or SQLTx returns"}
	}
	if result != nil {
		if err := j.SetResult(result); err != nil {
			return err
		}
	}
	if err := tx.Finish(ctx, []Outcome{j.complete()}); err != nil {
		return err
	}
	if j.handling != nil {
		j.handling.finished = true
	}
	return nil
}

// OutcomeOf is the outcome of a handler that got ctx and returns err, without the job's id and
// token; its Ending is empty for [ErrFinished]. It is for middleware and for tests of handlers:
// the options of a kind come after it, and [RawJob.After] says what it makes of a job.
func OutcomeOf(ctx context.Context, err error) Outcome {
	var cause error
	if ctx != nil {
		cause = context.Cause(ctx)
	}
	o, _ := decide(Lease{}, nil, err, cause)
	return o
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

// Snooze, returned by a handler, delays its job by d, 0 to MaxDelay, without counting the attempt: the backoff of later
// retries does not grow by it, and nothing of it is kept with the job. A reason belongs into the handler's log.
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
// place, without counting the attempt. It may be claimed again at once: to delay it,
// return Snooze.
func Release() error { return &verdict{ending: EndRelease} }
