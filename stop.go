package dibs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// stage says how far the shutdown of a worker has come.
type stage int

const (
	working  stage = iota
	waiting        // handlers may return by themselves, for ShutdownWait
	stopping       // the handlers' contexts have ended; they have heedWait to return
	leaving        // handlers that still run are abandoned; outcomes are written, for writeWait
	gone
)

// shutdown is how far the end of Run has come, and why it ends.
type shutdown struct {
	stage     stage
	stageEnd  time.Time
	abandoned []*held // jobs whose handlers still run after the shutdown
	fatal     error   // why Run ends by itself
	closed    bool    // the store is closed: no calls are made
}

const (
	heedWait  = 3 * time.Second // how long handlers may run on after their contexts end
	writeWait = 2 * time.Second // how long Run then goes on writing outcomes
)

// stopClaiming begins the shutdown.
func (r *run) stopClaiming(now time.Time, reason error) {
	if r.shutdown.stage == working {
		r.shutdown.stage, r.shutdown.stageEnd = waiting, now.Add(max(r.ShutdownWait, 0))
		r.onStop(reason)
	}
}

// hurry begins the shutdown, and has it wait no longer.
func (r *run) hurry(reason error) {
	now := time.Now()
	r.stopClaiming(now, reason)
	if r.shutdown.stage == waiting {
		r.shutdown.stageEnd = now
	}
}

// storeClosed begins the shutdown and ends the handlers' contexts at once: their outcomes
// cannot be written any more.
func (r *run) storeClosed(err error) {
	r.shutdown.closed, r.shutdown.fatal = true, err
	r.hurry(err)
}

// stop moves the shutdown on when a stage has lasted long enough.
func (r *run) stop(now time.Time) (next time.Time) {
	for r.shutdown.stage != working && r.shutdown.stage != gone && !now.Before(r.shutdown.stageEnd) {
		r.shutdown.stage++
		switch r.shutdown.stage {
		case stopping:
			r.shutdown.stageEnd = now.Add(heedWait)
			r.attempts.giveUp(ErrShutdown)
		case leaving:
			r.shutdown.stageEnd = now.Add(writeWait)
			r.leave()
		}
	}
	return r.shutdown.stageEnd
}

// leave forgets the jobs of handlers that ignored the end of their contexts; their
// leases are not extended any more.
func (r *run) leave() {
	for h := range r.attempts.running {
		r.drop(h)
		r.shutdown.abandoned = append(r.shutdown.abandoned, h)
	}
	clear(r.attempts.running)
}

// settled reports whether no handler runs, no outcome can still be written, and no claim may
// have taken jobs.
func (r *run) settled() bool {
	return len(r.attempts.running) == 0 && (r.shutdown.closed || len(r.writes.unwritten) == 0) && !r.writes.busy && !r.claims.busy
}

// stopped reports whether Run can return.
func (r *run) stopped() bool {
	switch r.shutdown.stage {
	case working:
		return false
	case gone:
		return true
	default:
		return r.settled() && !r.registers.busy
	}
}

// report is what Run returns.
func (r *run) report() error {
	errs := []error{r.shutdown.fatal}
	if len(r.shutdown.abandoned) > 0 {
		errs = append(errs, fmt.Errorf("%w: handlers ignored it and are still running; their jobs keep their leases until these end: %s", ErrShutdown, list(r.shutdown.abandoned)))
	}
	if unwritten := append(r.writes.batch, r.writes.unwritten...); len(unwritten) > 0 {
		errs = append(errs, fmt.Errorf("%w: outcomes could not be written; their jobs run again when their leases end: %s", ErrShutdown, list(unwritten)))
	}
	return errors.Join(errs...)
}

// list names up to ten jobs.
func list(jobs []*held) string {
	const most = 10
	slices.SortFunc(jobs, func(a, b *held) int { return cmp.Compare(a.lease.ID, b.lease.ID) })
	var b strings.Builder
	for i, h := range jobs {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(jobs)-most)
			break
		}
		fmt.Fprintf(&b, "%d (%s)", h.lease.ID, h.job.Kind)
		if i < min(len(jobs), most)-1 {
			b.WriteString(", ")
		}
	}
	return b.String()
}
