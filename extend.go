package dibs

import (
	"context"
	"fmt"
	"slices"
	"time"
)

var (
	// errNotExtended is why a handler is stopped before its lease ends.
	errNotExtended = fmt.Errorf("%w: it could not be extended in time", ErrLeaseLost)
	errRefused     = fmt.Errorf("%w: the database refused to extend it", ErrLeaseLost)
	errSuperseded  = fmt.Errorf("%w: the job was claimed again", ErrLeaseLost)
)

// errQueueTimeout is why a handler is stopped that runs longer than its queue allows.
func errQueueTimeout(ran time.Duration) error {
	return fmt.Errorf("%w of the queue: it has run for %v", ErrJobTimeout, ran.Round(time.Millisecond))
}

// extends is the last Extend, which may be under way, and when the next is sent.
type extends struct {
	call[Extended]
	sending    extending
	lease      time.Duration // length of the last claim's leases
	checkAt    time.Time     // when extend looks at the leases next; zero: no job is held
	progressAt time.Time     // when to extend the leases at the latest, to write progress; zero: there is none
}

// extendAt is when the lease is to be extended: after a third of it, and when the queue's timeout
// has passed, as the answer says whether it still holds.
func (h *held) extendAt() time.Time { return earliest(h.since.Add(h.length/3), h.timeoutAt) }

// timeoutsApart is how far extensions are apart at least, so that many jobs that reach their
// timeouts one after the other share one. With short leases it is less.
const timeoutsApart = 250 * time.Millisecond

// timeoutSlack is how much longer than a timeout the worker waits before it asks, since its clock
// is not the database's.
func timeoutSlack(timeout time.Duration) time.Duration { return 10*time.Millisecond + timeout/1000 }

// margin is how long before the lease's end the handler is told to stop: enough for
// one that heeds its context to be gone when another worker starts the job.
func (h *held) margin() time.Duration { return min(h.length/10, 2*time.Second) }

// extendTimeout is how long an Extend may take that is sent now: half of the time until the first handler would have to stop. So
// one that gets no answer, as its connection has fallen silent, leaves as much time again for the next.
func (r *run) extendTimeout(now time.Time) time.Duration {
	least := r.extends.lease / 10
	half := r.extends.lease / 2
	for _, h := range r.held {
		if !h.interrupted && !h.extendRefused {
			half = min(half, h.leaseEnd().Add(-h.margin()).Sub(now)/2)
		}
	}
	return max(half, least)
}

// extend extends all leases in one call, once one of them has used up a third of its
// length, and stops handlers whose leases could not be extended and are about to end.
func (r *run) extend(now time.Time) (next time.Time) {
	if r.extends.checkAt.IsZero() || now.Before(r.extends.checkAt) {
		return r.extends.checkAt
	}
	due := !r.extends.progressAt.IsZero() && !now.Before(r.extends.progressAt)
	if !due {
		next = r.extends.progressAt
	}
	for _, h := range r.held {
		if at := h.extendAt(); at.After(now) {
			next = earliest(next, at)
		} else if !h.extendRefused {
			due = true
		}
		if !r.attempts.running[h] || h.interrupted || h.finishing {
			continue
		}
		if last := h.leaseEnd().Add(-h.margin()); last.After(now) {
			next = earliest(next, last)
		} else {
			h.interrupted = true
			h.cancel(errNotExtended)
			r.onLeaseLost(h.job, errNotExtended)
		}
	}
	if due && !r.extends.busy && !r.shutdown.closed { // the answer to a busy call leads here again
		if at := latest(r.extends.retryAt, r.extends.sent.Add(min(r.extends.lease/40, timeoutsApart))); now.Before(at) {
			next = earliest(next, at)
		} else {
			r.sendExtend(now)
		}
	}
	r.extends.checkAt = next
	return next
}

// extending is the Extend under way: its jobs, their leases, and the length of these.
type extending struct {
	jobs   []*held
	leases []Lease
	length time.Duration
}

func (r *run) sendExtend(now time.Time) {
	b := extending{make([]*held, 0, len(r.held)), make([]Lease, 0, len(r.held)), r.extends.lease}
	r.extends.progressAt = time.Time{} // what is set from now on is noted anew
	for _, h := range r.held {
		if !h.extendRefused {
			b.jobs = append(b.jobs, h)
			b.leases = append(b.leases, h.takeProgress())
		}
	}
	r.extends.sending = b
	if len(b.jobs) == 0 {
		return
	}
	r.extends.send(r.calls, r, r.extendTimeout(now), func(ctx context.Context) (Extended, error) {
		return r.Store.Extend(ctx, b.leases, b.length)
	})
}

// extended notes the new end of each lease, and stops the handlers of jobs that are lost,
// cancelled, or have run longer than their queue allows.
func (r *run) extended(a answer[Extended]) {
	b := r.extends.sending
	r.extends.sending = extending{}
	r.extends.answered(r, a.err)
	r.extends.checkAt = time.Now()
	if a.err != nil {
		// A lease is short: try again while there is time.
		r.extends.retryAt = earliest(r.extends.retryAt, r.extends.checkAt.Add(b.length/10))
		for i, h := range b.jobs {
			r.keepProgress(h, b.leases[i].Progress)
		}
		r.onError("extend", a.err)
		return
	}
	lost, cancelled, finishing, timedOut := setOf(a.value.Lost), setOf(a.value.Cancelled), setOf(a.value.Finishing), setOf(a.value.TimedOut)
	if len(finishing) > 0 { // ask again soon: their transactions may be rolled back
		r.extends.retryAt = r.extends.checkAt.Add(b.length / 10)
	}
	for i, h := range b.jobs {
		id := h.lease.ID
		switch {
		case r.held[id] != h: // finished or claimed again since
		case lost[id]:
			r.lose(h, errRefused)
		default:
			if h.finishing = finishing[id]; h.finishing {
				r.keepProgress(h, b.leases[i].Progress)
				continue
			}
			if r.attempts.running[h] && !h.timeoutAt.After(r.extends.sent) {
				h.timeoutAt = time.Time{} // it is answered
			}
			h.since, h.length = r.extends.sent, b.length
			r.noteLong(h, r.extends.checkAt)
			switch {
			case cancelled[id] && r.attempts.running[h]:
				h.cancel(ErrCancelled)
			case cancelled[id] && r.isAhead(h): // given back, it ends as cancelled
				r.ahead.jobs = without(r.ahead.jobs, h)
				r.giveBack(h)
			case timedOut[id] && r.attempts.running[h]:
				if h.timedOutAt.IsZero() {
					h.timedOutAt, h.nextLongLog = r.extends.checkAt, 0
				}
				h.cancel(errQueueTimeout(r.extends.checkAt.Sub(h.start)))
			}
		}
	}
}

// lose gives up a job that is no longer the worker's: it stops the handler, and its
// outcome is not written.
func (r *run) lose(h *held, reason error) {
	if h.writing {
		h.extendRefused = true
		return // the Finish under way may have ended the lease; its answer tells
	}
	h.lost = true
	r.drop(h)
	if !r.attempts.running[h] {
		r.writes.unwritten, r.ahead.jobs = without(r.writes.unwritten, h), without(r.ahead.jobs, h)
		r.onFinished(h, reason)
		return
	}
	h.cancel(reason)
	if !h.interrupted {
		h.interrupted = true
		r.onLeaseLost(h.job, reason)
	}
}

func without(list []*held, h *held) []*held {
	return slices.DeleteFunc(list, func(other *held) bool { return other == h })
}

func setOf(ids []int64) map[int64]bool {
	set := make(map[int64]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
