package dibs

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// The life of a job in a worker, file by file: claim.go takes it, attempt.go runs
// its handler, extend.go keeps its lease meanwhile, finish.go writes its outcome,
// and stop.go ends the worker. Each file has one step, a function that does what is due
// and returns when to call it next, and a function that takes the answers to its calls.

// loop waits for an event, handles it, and has every step do what is due.
func (r *run) loop(ctx context.Context) error {
	now := time.Now()
	r.lookNow(now)
	r.sweeps.at, r.sweeps.by = now, now
	r.onStart()
	timer := time.NewTimer(0)
	defer timer.Stop()
	end := ctx.Done()
	for {
		select {
		case <-end:
		case _, open := <-r.feeds.wake:
			r.heard(open)
		case e := <-r.attempts.done:
			r.returned(e)
			r.drain()
		case a := <-r.claims.answers:
			r.claimed(a)
		case <-r.attempts.progress:
			r.noteProgress(time.Now())
		case a := <-r.extends.answers:
			r.extended(a)
		case a := <-r.writes.answers:
			r.written(a)
		case a := <-r.sweeps.answers:
			r.swept(a)
		case a := <-r.registers.answers:
			r.registered(a)
		case f := <-r.asked:
			f()
		case <-timer.C:
		}
		now = time.Now()
		if ctx.Err() != nil { // select may have taken another event
			end = nil
			r.stopClaiming(now, context.Cause(ctx))
		}
		next := earliest(r.stop(now), r.startAhead(now), r.finish(now), r.claim(now), r.extend(now), r.sweep(now), r.register(now))
		if r.stopped() {
			r.onStopped()
			return r.report()
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// drain takes the handlers that have returned by now, so that their outcomes are
// written together and their places filled by one claim.
func (r *run) drain() {
	for {
		select {
		case e := <-r.attempts.done:
			r.returned(e)
		default:
			return
		}
	}
}

// held is a job that the worker holds: one attempt, from its claim until its
// outcome is written.
type held struct {
	job    *RawJob
	feed   *feed // where it was claimed
	lease  Lease // a copy: hooks see job and may change it
	cancel context.CancelCauseFunc

	// The lease ends at the earliest at since+length: since is this machine's
	// monotonic clock before the call that gave the lease was sent. That clock may
	// stand still while the machine sleeps; the token fences what comes after.
	since  time.Time
	length time.Duration

	interrupted bool // the handler's context was ended because of the lease
	lost        bool // this worker no longer holds the job
	// finishing is true while a transaction of the handler is finishing the job: no other
	// worker can take it meanwhile, even after its lease.
	finishing     bool
	extendRefused bool // an Extend was refused while the outcome was being written

	start       time.Time // when the handler was started; before, when the job was claimed ahead
	timeoutAt   time.Time // when to ask the database whether the queue's timeout is over; zero: not unasked
	timedOutAt  time.Time // when the handler's context was ended because of the queue's timeout
	nextLongLog int       // after how many leases noteLong logs next; 0: it has not logged yet
	ran         time.Duration
	err         error // what the handler returned

	handling *handling // nil before the handler is started

	outcome      Outcome
	writing      bool // the outcome is in the Finish under way
	maybeWritten bool // an earlier Finish with the outcome was not answered
	writeAlone   bool // its batch was refused, so the outcome is written by itself
	blocked      int  // how often another transaction's lock has kept the outcome from being written
}

func (h *held) leaseEnd() time.Time { return h.since.Add(h.length) }

// drop forgets a job, unless a newer attempt of it is held by now.
func (r *run) drop(h *held) {
	if r.held[h.lease.ID] == h {
		delete(r.held, h.lease.ID)
	}
}

// call is one of the calls that a worker makes to its store again and again. At
// most one of them is under way.
type call[A any] struct {
	busy     bool
	sent     time.Time // monotonic time just before the last one was sent
	failures int       // how many have failed in a row
	retryAt  time.Time // earliest time of the next one, after a failure
	answers  chan answer[A]
}

type answer[A any] struct {
	value A
	err   error
}

func newCall[A any]() call[A] { return call[A]{answers: make(chan answer[A], 1)} }

// send runs f on a goroutine of its own, which sends the answer to c.answers.
func (c *call[A]) send(ctx context.Context, r *run, timeout time.Duration, f func(context.Context) (A, error)) {
	c.busy, c.sent = true, time.Now()
	r.underway.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		value, err := f(ctx)
		c.answers <- answer[A]{value, err}
	})
}

const (
	callTimeout = 10 * time.Second // a call that lasts longer counts as unanswered
	firstRetry  = 50 * time.Millisecond
	lastRetry   = 2 * time.Second
)

// answered records the result of the call, and after a failure when to repeat it: soon,
// then at growing intervals up to about 2 s.
func (c *call[A]) answered(r *run, err error) {
	c.busy = false
	if errors.Is(err, ErrClosed) {
		r.storeClosed(err)
	}
	if err == nil {
		r.answeredAt = time.Now()
		c.failures, c.retryAt = 0, time.Time{}
		return
	}
	wait := lastRetry
	if c.failures < 10 {
		wait = min(firstRetry<<c.failures, lastRetry)
	}
	c.failures++
	c.retryAt = time.Now().Add(jitter(wait, 0.25))
}

// jitter spreads d by up to the given part to both sides, so that workers that
// were stopped together do not return together.
func jitter(d time.Duration, part float64) time.Duration {
	return time.Duration(float64(d) * (1 + part*(2*rand.Float64()-1)))
}

// earliest is the first of the times that are set, or zero.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
