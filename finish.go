package dibs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	finishBatch = 1000 // one Finish has at most so many outcomes
	// finishGap is how far apart calls come that write outcomes for which nobody waits: jobs that
	// end one by one share calls, and a call costs the database more than most outcomes do.
	finishGap = 5 * time.Millisecond
	// claimWait is how long after its start a claim under way holds up the outcomes when
	// the worker shuts down: it would claim the jobs that they give back.
	claimWait = 2 * time.Second
)

// writes is the last Finish, which may be under way, and what the next will write.
type writes struct {
	call[struct{}]
	batch  []*held // jobs whose outcomes are in the Finish under way
	worked bool    // a Finish has succeeded

	unwritten   []*held   // jobs whose outcomes are to be written
	gatherUntil time.Time // finish waits for more outcomes up to this time
	now         bool      // write at once: other jobs may wait for places that the unwritten outcomes free
}

// write adds an outcome to those to be written.
func (r *run) write(h *held) {
	if len(r.writes.unwritten) == 0 {
		r.writes.gatherUntil = time.Now().Add(gatherWait)
	}
	r.writes.unwritten = append(r.writes.unwritten, h)
	r.writes.now = r.writes.now || h.job.Limited || h.job.Group != "" || h.outcome.Ending == EndRelease
}

// finish writes the outcomes in one call, once no handler is running or the first outcome
// has waited long enough. Outcomes that come during a call go into the next.
func (r *run) finish(now time.Time) (next time.Time) {
	if len(r.writes.unwritten) == 0 || r.writes.busy || r.shutdown.closed {
		return time.Time{}
	}
	at := r.writes.gatherUntil
	if len(r.attempts.running) == 0 {
		at = now
	}
	if r.shutdown.stage == working && !r.writes.now && len(r.writes.unwritten) < finishBatch {
		at = latest(at, r.writes.sent.Add(finishGap))
	}
	if r.shutdown.stage != working && r.claims.busy {
		at = latest(at, r.claims.sent.Add(claimWait))
	}
	if at = latest(at, r.writes.retryAt); now.Before(at) {
		return at
	}
	n := r.batch()
	r.writes.batch, r.writes.unwritten = r.writes.unwritten[:n:n], r.writes.unwritten[n:]
	r.writes.now = r.writes.now && len(r.writes.unwritten) > 0
	outcomes := make([]Outcome, n)
	for i, h := range r.writes.batch {
		h.writing = true
		outcomes[i] = h.outcome
	}
	r.writes.send(r.calls, r, callTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.Store.Finish(ctx, outcomes)
	})
	return time.Time{}
}

// batch is how many of the unwritten outcomes go into the next call.
func (r *run) batch() int {
	n, added := min(len(r.writes.unwritten), finishBatch), 0
	for i, h := range r.writes.unwritten[:n] {
		if added += len(h.outcome.Add); added > MaxBatch {
			n = max(i, 1)
			break
		}
	}
	if alone := slices.IndexFunc(r.writes.unwritten[:n], func(h *held) bool { return h.writeAlone }); alone >= 0 {
		n = max(alone, 1)
	}
	return n
}

// written forgets the jobs whose outcomes were written or refused. The others are
// tried again.
func (r *run) written(a answer[struct{}]) {
	batch := r.writes.batch
	r.writes.batch = nil
	for _, h := range batch {
		h.writing = false
	}
	var refused *FinishError
	var lost, again map[int64]bool
	switch {
	case errors.As(a.err, &refused):
		lost, again = setOf(refused.Lost), setOf(refused.Unwritten)
	case a.err != nil:
		r.unanswered(batch, a.err)
		return
	}
	r.writes.answered(r, nil)
	r.writes.worked = true
	var left []*held
	for _, h := range batch {
		if again[h.lease.ID] {
			left = append(left, h)
			continue
		}
		r.drop(h)
		var err error
		if lost[h.lease.ID] {
			err = refusal(h)
			h.feed.claimNow = h.feed.claimNow || h.maybeWritten // an earlier write may have made room without a wakeup
		}
		r.onFinished(h, err)
		switch h.outcome.Ending {
		case EndRetry, EndSnooze, EndRelease:
			h.feed.claimNow = true // the job may be due again
		}
	}
	if len(left) > 0 {
		r.unanswered(left, a.err)
	}
}

// refusal explains why the database refused an outcome.
func refusal(h *held) error {
	if h.maybeWritten {
		return fmt.Errorf("%w, unless an earlier write that was not answered has taken effect", ErrLeaseLost)
	}
	return ErrLeaseLost
}

// unanswered keeps the outcomes of a Finish that failed for as long as their leases
// last. If repeating it would not help, they are written one by one, so that one
// that the database refuses does not keep the others from being written.
func (r *run) unanswered(batch []*held, err error) {
	r.writes.answered(r, err)
	r.onUnwritten(batch, err)
	if !temporary(err) && len(batch) == 1 {
		r.replace(batch[0], err)
		return
	}
	now := time.Now()
	for _, h := range batch {
		h.maybeWritten, h.writeAlone = true, h.writeAlone || !temporary(err)
		switch {
		case r.held[h.lease.ID] != h:
			r.onFinished(h, errSuperseded)
		case !now.Before(h.leaseEnd()):
			r.drop(h)
			r.onFinished(h, errNotExtended)
		default:
			r.write(h)
		}
	}
}

// replace turns an outcome that the database refuses into a retry. If the database
// refuses that too, it gives the job up, which runs again when its lease has ended.
func (r *run) replace(h *held, err error) {
	if h.outcome.Ending == EndRetry {
		r.drop(h)
		r.onFinished(h, err)
		return
	}
	h.writeAlone = true
	h.outcome = h.lease.Retry(fmt.Sprintf("the outcome %q could not be written: %v", h.outcome.Ending, err))
	r.write(h)
}

// temporary reports whether a call that failed with err may succeed when repeated.
func temporary(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrSchema) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
