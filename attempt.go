package dibs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

// attempt is a job with its handler.
type attempt struct {
	ctx context.Context
	h   *held
	f   *kindHandler
}

// ended tells the loop that a handler has returned.
type ended struct {
	h          *held
	err        error
	outcome    Outcome
	write      bool // the worker writes the outcome; false: the handler has finished its job itself
	notStarted bool // the handler could not start the job
}

// attempts are the handlers that run, and the channels between them and the loop.
type attempts struct {
	// ctx is the parent of the handlers' contexts; giveUp ends it. The context given to
	// Run only ends the claiming.
	ctx    context.Context
	giveUp context.CancelCauseFunc

	running  map[*held]bool // those whose handlers have not returned; lost ones too
	todo     chan attempt   // those counted in running whose handlers have not started
	starting atomic.Bool    // a goroutine is starting that will read todo
	done     chan ended     // handlers that have returned
	progress chan struct{}  // receives when a handler has set its progress

	endings map[Ending]int // the number of attempts by their ending; "": the handler finished the job itself
}

func newAttempts(ctx context.Context, giveUp context.CancelCauseFunc, concurrency int) attempts {
	return attempts{
		ctx:      ctx,
		giveUp:   giveUp,
		running:  make(map[*held]bool),
		todo:     make(chan attempt, concurrency),
		done:     make(chan ended, concurrency),
		progress: make(chan struct{}, 1),
		endings:  make(map[Ending]int),
	}
}

// execute starts the handler of a claimed job.
func (r *run) execute(h *held, f *kindHandler) {
	ctx, cancel := context.WithCancelCause(r.attempts.ctx)
	h.cancel, h.start = cancel, time.Now()
	h.handling = &handling{told: r.attempts.progress, store: r.Store}
	r.attempts.running[h] = true
	r.onStarted(ctx, h.job)
	r.attempts.todo <- attempt{ctx, h, f}
	r.goHandle()
}

// goHandle starts a goroutine that reads r.attempts.todo, unless one is starting. One is enough: it
// starts the next before it runs a handler. So no job waits for another's handler, and
// quick handlers share goroutines: starting one costs more than they do.
func (r *run) goHandle() {
	if r.attempts.starting.CompareAndSwap(false, true) {
		go r.handle()
	}
}

func (r *run) handle() {
	r.attempts.starting.Store(false)
	for {
		select {
		case a := <-r.attempts.todo:
			if len(r.attempts.todo) > 0 {
				r.goHandle()
			}
			r.attempt(a.ctx, a.h, a.f)
		default:
			return
		}
	}
}

// attempt runs a handler and makes its outcome. It reports even when the handler
// panics or ends its goroutine.
func (r *run) attempt(ctx context.Context, h *held, f *kindHandler) {
	if f.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, f.Timeout, f.timedOut)
		defer stop()
	}
	job := *h.job // the handler's own: the worker goes on reading h.job
	job.Result, job.handling = nil, h.handling
	e, returned := ended{h: h, err: errGoexit}, false
	defer func() {
		if !returned { // something has ended the goroutine
			e.outcome, e.write = decide(h.lease, nil, e.err, context.Cause(ctx))
			e.outcome = f.limit(h.job, e.outcome)
		}
		select {
		case r.attempts.done <- e:
		case <-r.over:
		}
	}()
	var err error
	if job.Fault != "" { // it can never be run as it is
		err = Die(errors.New("not run: " + job.Fault))
	} else {
		err = recovered(func() error { return f.run(ctx, &job) })
	}
	o, write := decide(h.lease, job.Result, err, context.Cause(ctx))
	if write {
		o, write = f.settle(h.job, o, err), err != nil || !h.handling.finished
	}
	if o.Ending == EndCompleted {
		o.Add = h.handling.toAdd()
	}
	e.outcome, e.write = o, write
	e.notStarted = o.Ending == EndRelease && errors.Is(err, ErrNotStarted) // decide has read err without a panic
	e.err, returned = err, true
}

// recovered calls f, and returns what it panics with as an error.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: trim(string(debug.Stack()))}
		}
	}()
	return f()
}

// decide turns what a handler returned, and why its context ended if it did, into
// the outcome. write is false when there is none to write.
func decide(l Lease, result json.RawMessage, err, cause error) (o Outcome, write bool) {
	defer func() {
		if p := recover(); p != nil { // a method of err's, such as Unwrap of a nil pointer
			o, write = l.Retry(fmt.Sprintf("the handler returned a %T that panics when it is read: %v", err, p)), true
		}
	}()
	if err == nil {
		if err := checkResult(result); err != nil {
			return l.Retry(err.Error()), true
		}
		return l.Complete(result), true
	}
	text := fmt.Sprint(err) // not err.Error(), which may panic on a nil pointer
	var v *verdict
	var p *panicError
	switch {
	case errors.Is(err, ErrFinished):
		return Outcome{ID: l.ID, Token: l.Token}, false
	case errors.Is(cause, ErrCancelled):
		return l.Cancel(text), true
	case errors.Is(err, ErrNotStarted):
		return l.Release(), true
	case errors.As(err, &v):
		return v.outcome(l, err), true
	case errors.Is(err, ErrCancelled):
		return l.Cancel(text), true
	case errors.As(err, &p):
		return l.Retry(text), true
	case errors.Is(cause, ErrShutdown), errors.Is(cause, ErrLeaseLost):
		return l.Release(), true // interrupted through no fault of its own
	case errors.Is(cause, ErrJobTimeout):
		return l.Retry(cause.Error() + ": " + text), true
	default:
		return l.Retry(text), true
	}
}

// outcome is what the verdict asks for. err is v or an error that wraps it; its text is
// kept, except where it would only repeat the verdict.
func (v *verdict) outcome(l Lease, err error) Outcome {
	o := Outcome{ID: l.ID, Token: l.Token, Ending: v.ending, Delay: v.delay}
	if v.ending == EndRetry || v.ending == EndDead {
		o.Error = fmt.Sprint(err)
		if any(err) == any(v) && v.err != nil { // err is the verdict itself, not wrapped
			o.Error = fmt.Sprint(v.err)
		}
	}
	return o
}

// returned frees the place of a handler that has ended, and has its outcome written.
func (r *run) returned(e ended) {
	h := e.h
	if !r.attempts.running[h] {
		return // left behind by the shutdown
	}
	delete(r.attempts.running, h)
	h.cancel(nil) // frees the context
	now := time.Now()
	h.ran, h.err, h.outcome = now.Sub(h.start), e.err, e.outcome
	r.ahead.pace.ran(h.ran)
	if r.claims.freedAt.IsZero() {
		r.claims.freedAt = now
	}
	r.pause(e, now)
	switch {
	case !e.write:
		r.drop(h)
		h.feed.claimNow = true
		r.onFinished(h, nil)
	case h.lost:
		r.onFinished(h, ErrLeaseLost)
	default:
		r.write(h)
	}
}

var errGoexit = errors.New("handler ended its goroutine (runtime.Goexit) instead of returning")

// panicError is the error of an attempt whose handler panicked. The message comes before
// the stack, so that cutting the text keeps it.
type panicError struct {
	value any
	stack string
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", p.value, p.stack) }

// trim cuts off the frames of the recovery itself, down to the caller of panic.
func trim(stack string) string {
	_, after, found := strings.Cut(stack, "\npanic(")
	for range 2 {
		if found {
			_, after, found = strings.Cut(after, "\n")
		}
	}
	if !found {
		return stack
	}
	return after
}
