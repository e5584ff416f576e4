package dibs

import (
	"context"
	"errors"
	"time"
)

const (
	// firstPoll and lastPoll bound the wait between claims of a worker whose last claim
	// found fewer jobs than it asked for, if nothing wakes it: the wait doubles with
	// each claim that finds nothing.
	firstPoll = 100 * time.Millisecond
	// lastPoll, give or take pollJitter, is also how late a job starts for which no worker
	// was woken: claims find the jobs that became due and those whose lease ended. It
	// has to stay under 2 s. A worker that does not claim sweeps as often.
	lastPoll   = 1700 * time.Millisecond
	pollJitter = 0.05
	sweepEvery = 10 * time.Second // a worker that claims sweeps this often
	// claimGap keeps a busy worker, whose handlers return one by one, from
	// claiming jobs one by one: claims for less than a quarter of its places come
	// this far apart.
	claimGap = 5 * time.Millisecond
	// gatherWait is how long the first free place, and the first outcome, wait for more
	// while handlers are running: handlers that started together mostly end together.
	// Without it a queue of short jobs takes twice the calls and twice the time.
	gatherWait = time.Millisecond
	// firstPause and lastPause bound the time without claims after a handler could not
	// start its job: it doubles while that goes on.
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

// found is the answer to a claim, or the queues that have due jobs where it asked for those.
type found struct {
	jobs   []*RawJob
	queues []string
}

// claims is the last claim, which may be under way, and what decides when the next is sent.
type claims struct {
	call[found]
	from       *feed // where it asked for jobs; nil: it asked which queues have any
	requested  int   // how many jobs it asked for
	askedAhead int   // how many of the requested jobs were to be ahead
	worked     bool  // a claim has succeeded

	pollWait time.Duration // how long the worker waits before it looks for jobs unasked
	pollAt   time.Time
	freedAt  time.Time // when the first place became free since the last claim; zero: none has

	pausedUntil  time.Time // no claim until then, as a handler could not start its job
	pausesInARow int
}

// claim asks for jobs when there may be some and there is room for them.
func (r *run) claim(now time.Time) (next time.Time) {
	if r.shutdown.stage != working || r.claims.busy {
		return time.Time{}
	}
	places, ahead := r.Concurrency-len(r.attempts.running), r.aheadSize()-len(r.ahead.jobs)
	// A worker holds at most twice as many jobs as it may hold if all outcomes are written at
	// once: outcomes that cannot be written hold up claims before they fill the memory.
	n := min(places+max(ahead, 0), 2*(r.Concurrency+r.aheadSize())-len(r.held))
	q, share, at := r.next(now, n)
	resume := q != nil && q.resume
	if places == 0 && (q == nil || resume || !q.gotAll || len(r.ahead.jobs) > ahead) { // enough are ahead, or there were no more
		return time.Time{}
	}
	if share <= 0 {
		return time.Time{}
	}
	if len(r.attempts.running) > 0 {
		at = latest(at, r.claims.freedAt.Add(gatherWait))
		if q != nil && n < r.Concurrency/4 {
			at = latest(at, q.sent.Add(claimGap))
		}
	}
	if at = latest(latest(at, r.claims.retryAt), r.claims.pausedUntil); now.Before(at) {
		return at
	}
	r.claims.from, r.claims.requested, r.claims.askedAhead = q, share, max(share-places, 0)
	r.sendClaim(now)
	return time.Time{}
}

// sendClaim makes the call: a Resume, a claim from the queue, or else a look at all queues.
func (r *run) sendClaim(now time.Time) {
	select {
	case _, open := <-r.feeds.wake: // this claim sees the work that the wakeup announces
		r.heard(open)
	default:
	}
	r.sweeps.at = earliest(r.sweeps.by, now.Add(jitter(lastPoll, pollJitter)))
	// A shutdown lets a claim end: one that is broken off may have taken jobs, and
	// they would wait until their leases end.
	q := r.claims.from
	if q == nil {
		names := r.quiet()
		r.claims.send(r.calls, r, callTimeout, func(ctx context.Context) (f found, err error) {
			f.queues, err = r.Store.Due(ctx, names, r.kinds)
			return f, err
		})
		return
	}
	call, request := r.Store.Claim, ClaimRequest{Queue: q.Name, Worker: r.Name, N: r.claims.requested, Ahead: r.claims.askedAhead, Kinds: r.kinds, Lease: r.Lease, Again: true}
	if q.resume {
		call, request = r.Store.Resume, ClaimRequest{Queue: q.Name, Worker: r.Name, Lease: r.Lease}
	}
	q.claimNow, q.sent, r.claims.freedAt = false, now, time.Time{}
	r.claims.send(r.calls, r, callTimeout, func(ctx context.Context) (f found, err error) {
		f.jobs, err = call(ctx, request)
		return f, err
	})
}

// callName names the call that looks for jobs in a queue, or in all queues.
func callName(q *feed) string {
	switch {
	case q == nil:
		return "due"
	case q.resume:
		return "resume"
	}
	return "claim"
}

// claimed starts the jobs that a claim gave.
func (r *run) claimed(a answer[found]) {
	r.claims.answered(r, a.err)
	now, q := time.Now(), r.claims.from
	if a.err != nil {
		if q != nil && len(r.feeds.all) == 1 { // a worker with several queues claims from the others first
			q.claimNow = true
		}
		if r.hopeless(a.err) {
			r.shutdown.fatal = a.err
		}
		r.onError(callName(q), a.err)
		if r.shutdown.fatal != nil {
			r.stopClaiming(now, r.shutdown.fatal)
		}
		return
	}
	r.claims.worked = true
	if q == nil {
		r.looked(a.value.queues, now)
		return
	}
	jobs, resumed := a.value.jobs, q.resume
	q.gotAll = len(jobs) == r.claims.requested
	q.started += float64(len(jobs)) / float64(q.Weight)
	q.resume = false
	full := len(jobs) > 0 && len(jobs) >= r.claims.requested-r.claims.askedAhead
	q.claimNow = q.claimNow || resumed || full
	if len(jobs) > 0 {
		r.claims.pollWait = 0
	}
	if len(r.feeds.all) == 1 {
		r.putOffPoll(now)
	} else if len(jobs) > 0 && !full { // where jobs came, more may come
		r.claims.pollAt = earliest(r.claims.pollAt, now.Add(jitter(firstPoll, pollJitter)))
	}
	if len(jobs) > 0 {
		r.onClaimed(q, jobs, now.Sub(r.claims.sent))
	}
	for _, job := range jobs {
		r.accept(q, job, !resumed)
	}
}

// putOffPoll has the worker look for jobs unasked after a while, longer each time.
func (r *run) putOffPoll(now time.Time) {
	r.claims.pollWait = min(max(2*r.claims.pollWait, firstPoll), lastPoll)
	r.claims.pollAt = now.Add(jitter(r.claims.pollWait, pollJitter))
	// The next claim sweeps too, so no sweep is needed before it.
	r.sweeps.at = earliest(r.sweeps.by, latest(r.sweeps.at, r.claims.pollAt))
}

// hopeless reports whether repeating a claim would not help. A missing right or table
// ends only a worker that has not made any claim yet: later somebody has removed it by
// mistake, and may restore it.
func (r *run) hopeless(err error) bool {
	return errors.Is(err, ErrInvalid) || !r.claims.worked && (errors.Is(err, ErrDenied) || errors.Is(err, ErrSchema))
}

// accept starts a claimed job, or keeps it for later if it may wait. It releases a job that
// was claimed while the shutdown began, or resumed without a free place or a handler.
func (r *run) accept(q *feed, job *RawJob, mayWait bool) {
	h := &held{job: job, feed: q, lease: job.Lease(), since: r.claims.sent, length: job.LeaseUntil.Sub(job.ClaimedAt)}
	if old := r.held[job.ID]; old != nil {
		r.lose(old, errSuperseded)
	}
	r.held[job.ID] = h
	if job.Timeout > 0 {
		h.timeoutAt = time.Now().Add(job.Timeout + timeoutSlack(job.Timeout))
	}
	r.extends.lease = h.length
	r.extends.checkAt = earliest(r.extends.checkAt, h.extendAt())
	r.ahead.pace.claimed(job)
	f := r.handler(job.Kind)
	full := len(r.attempts.running) == r.Concurrency || !mayWait && r.places(q) <= 0
	switch {
	case f == nil || r.shutdown.stage != working || full && !mayWait:
		r.giveBack(h)
	case full:
		h.start = time.Now()
		r.ahead.jobs = append(r.ahead.jobs, h)
	default:
		r.execute(h, f)
	}
}

// pause puts off the next claim when a handler could not start its job. The other jobs of
// the same claim fail for the same reason.
func (r *run) pause(e ended, now time.Time) {
	switch {
	case !e.notStarted:
		r.claims.pausesInARow = 0
		return
	case now.Before(r.claims.pausedUntil):
		return
	case now.Sub(r.claims.pausedUntil) > lastPause: // handlers have started since, though none has returned yet
		r.claims.pausesInARow = 0
	}
	wait := jitter(min(firstPause<<r.claims.pausesInARow, lastPause), 0.25)
	r.claims.pausesInARow = min(r.claims.pausesInARow+1, 10)
	r.claims.pausedUntil = now.Add(wait)
	r.onPause(e.h.job, e.err, wait)
}

// sweeps is the last Sweep, which may be under way, and when the next is sent.
type sweeps struct {
	call[Swept]
	at time.Time // unless a claim comes before, which sweeps too
	by time.Time // at the latest
}

// sweep calls the store's Sweep when claims have not done its work lately.
func (r *run) sweep(now time.Time) (next time.Time) {
	if r.shutdown.stage != working || r.sweeps.busy {
		return time.Time{}
	}
	if at := latest(r.sweeps.at, r.sweeps.retryAt); now.Before(at) {
		return at
	}
	r.sweeps.at, r.sweeps.by = now.Add(jitter(lastPoll, pollJitter)), now.Add(jitter(sweepEvery, pollJitter))
	r.sweeps.send(r.calls, r, callTimeout, r.Store.Sweep)
	return time.Time{}
}

// swept has the worker claim: this sweep, or another process's, may have made jobs claimable.
func (r *run) swept(a answer[Swept]) {
	r.sweeps.answered(r, a.err)
	r.lookNow(time.Now())
	if a.value.Pruned > 0 { // more finished jobs may be past their retention
		r.sweeps.by = r.sweeps.at
	}
	if a.err != nil {
		r.onError("sweep", a.err)
	}
}
