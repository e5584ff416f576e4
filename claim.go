package dibs

import (
	"context"
	"errors"
	"time"
)

const (
	// firstPoll and lastPoll bound the time from a claim that found fewer jobs than
	// asked for to the next one, if nothing wakes the worker before: it doubles
	// while claims find nothing.
	firstPoll = 100 * time.Millisecond
	// lastPoll, give or take pollJitter, is also how late a job starts that nobody
	// was woken for: one that became due, or whose lease ended, since claims look for
	// these too. It has to stay under 2 s. A worker that does not claim sweeps as often.
	lastPoll   = 1700 * time.Millisecond
	pollJitter = 0.05
	sweepEvery = 10 * time.Second // of a worker that claims
	// claimGap keeps a busy worker, whose handlers return one by one, from
	// claiming jobs one by one: claims for less than a quarter of its places come
	// this far apart.
	claimGap = 5 * time.Millisecond
	// gather is how long the first place that became free, and the first outcome,
	// wait for more of them while handlers are running: most often those that
	// started together end together. Without it a queue of short jobs takes twice
	// as many calls, and twice the time.
	gather = time.Millisecond
	// firstPause and lastPause bound the time without claims after a handler could not
	// start its job: it doubles while that goes on.
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

// claim asks for jobs when there may be some and there is room for them.
func (r *run) claim(now time.Time) (next time.Time) {
	// What is held is at most twice what may run: outcomes that cannot be written
	// hold up claims before they fill the memory.
	n := min(r.Concurrency-len(r.running), 2*r.Concurrency-len(r.held))
	if r.stage != working || r.claims.busy || n <= 0 {
		return time.Time{}
	}
	at := r.pollAt
	if r.more {
		at = now
	}
	if len(r.running) > 0 {
		at = latest(at, r.freedAt.Add(gather))
		if n < r.Concurrency/4 {
			at = latest(at, r.claims.sent.Add(claimGap))
		}
	}
	if at = latest(latest(at, r.claims.retryAt), r.pausedTo); now.Before(at) {
		return at
	}
	select {
	case <-r.wake: // this claim sees what that tells of
	default:
	}
	r.more, r.asked, r.freedAt = false, n, time.Time{}
	r.sweepAt = earliest(r.sweepBy, now.Add(jitter(lastPoll, pollJitter)))
	// Even a shutdown that gives everything else up lets a claim end: whether a claim
	// that is broken off took jobs is not known, and these would wait out a lease.
	r.claims.send(r.calls, r, callTimeout, r.take(n))
	return time.Time{}
}

func (r *run) take(n int) func(context.Context) ([]*RawJob, error) {
	if r.resume {
		return func(ctx context.Context) ([]*RawJob, error) {
			return r.Store.Resume(ctx, ClaimRequest{Queue: r.Queue, Worker: r.Name, Lease: r.Lease})
		}
	}
	return func(ctx context.Context) ([]*RawJob, error) {
		return r.Store.Claim(ctx, ClaimRequest{Queue: r.Queue, Worker: r.Name, N: n, Kinds: r.kinds, Lease: r.Lease})
	}
}

// claimed starts the jobs that a claim gave.
func (r *run) claimed(a answer[[]*RawJob]) {
	r.claims.answered(r, a.err)
	now := time.Now()
	if a.err != nil {
		r.more = true
		r.onError("claim", a.err)
		if r.hopeless(a.err) {
			r.fatal = a.err
			r.stopClaiming(now)
		}
		return
	}
	r.claimsWork = true
	jobs := a.value
	switch {
	case r.resume:
		r.resume, r.more = false, true
	case len(jobs) == r.asked:
		r.more = true
		r.idle = 0
	case len(jobs) > 0:
		r.idle = 0
	}
	r.idle = min(max(2*r.idle, firstPoll), lastPoll)
	r.pollAt = now.Add(jitter(r.idle, pollJitter))
	// A claim that can be made then makes a sweep before it unnecessary.
	r.sweepAt = earliest(r.sweepBy, latest(r.sweepAt, r.pollAt))
	if len(jobs) > 0 {
		r.onClaimed(jobs, now.Sub(r.claims.sent))
	}
	for _, job := range jobs {
		r.accept(job)
	}
}

// hopeless reports whether to repeat a claim would not help. What is missing in the
// database ends only a worker that has not made any claim yet: under one that works, a
// right that is revoked or a table that is away is somebody's mistake, and may come back.
func (r *run) hopeless(err error) bool {
	return errors.Is(err, ErrInvalid) || !r.claimsWork && (errors.Is(err, ErrDenied) || errors.Is(err, ErrSchema))
}

// accept starts a claimed job, or releases one that cannot run here: claimed while
// the shutdown began, or resumed without a place or a handler for it.
func (r *run) accept(job *RawJob) {
	h := &held{job: job, lease: job.Lease(), since: r.claims.sent, length: job.LeaseUntil.Sub(job.ClaimedAt)}
	if old := r.held[job.ID]; old != nil {
		r.lose(old, errSuperseded)
	}
	r.held[job.ID] = h
	r.lease = h.length
	r.lookAt = earliest(r.lookAt, h.extendAt())
	f := r.handler(job.Kind)
	if f == nil || r.stage != working || len(r.running) == r.Concurrency {
		h.outcome = h.lease.Release()
		r.write(h)
		return
	}
	r.execute(h, f)
}

// pause puts off the next claim when a handler could not start its job. The other jobs of
// the same claim fail for the same reason.
func (r *run) pause(e ended, now time.Time) {
	switch {
	case !e.unable:
		r.pauses = 0
		return
	case now.Before(r.pausedTo):
		return
	case now.Sub(r.pausedTo) > lastPause: // it went well meanwhile, though no handler has returned yet
		r.pauses = 0
	}
	wait := jitter(min(firstPause<<r.pauses, lastPause), 0.25)
	r.pauses = min(r.pauses+1, 10)
	r.pausedTo = now.Add(wait)
	r.onPause(e.h.job, e.err, wait)
}

// sweep has the store do what time brings about, if no claim has done so.
func (r *run) sweep(now time.Time) (next time.Time) {
	if r.stage != working || r.sweeps.busy {
		return time.Time{}
	}
	if at := latest(r.sweepAt, r.sweeps.retryAt); now.Before(at) {
		return at
	}
	r.sweepAt, r.sweepBy = now.Add(jitter(lastPoll, pollJitter)), now.Add(jitter(sweepEvery, pollJitter))
	r.sweeps.send(r.calls, r, callTimeout, r.Store.Sweep)
	return time.Time{}
}

// swept claims what the sweep, this one or another process's, may have brought.
func (r *run) swept(a answer[Swept]) {
	r.sweeps.answered(r, a.err)
	r.more = true
	if a.value.Pruned > 0 { // there may be more to forget
		r.sweepBy = r.sweepAt
	}
	if a.err != nil {
		r.onError("sweep", a.err)
	}
}
