package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/wakeups"
)

const (
	expireEvery = time.Second      // how often claims look for leases that have ended
	pruneEvery  = 10 * time.Second // how often history is pruned and counts are merged; sooner if a prune has left rows
	pruneIdle   = time.Minute      // the same while no count changes: history must still be pruned by age
	expireBatch = 100              // claims that one statement looks at
	pruneBatch  = 10_000           // rows that one statement deletes per queue and state; it first reads past the rows deleted before
	pruneAll    = 5 * pruneBatch   // rows that one statement deletes in all
	pruneMost   = 200_000          // a sweep stops pruning after this many rows, long before the next sweep is due
	mergeBatch  = 50_000           // rows that one statement merges
	mergeRounds = 20               // most merge statements in one sweep; it stops earlier once they no longer halve the rows
	sweepRounds = 100              // full batches of claims in one sweep
)

// sweeper remembers when this process last swept, and settles.
type sweeper struct {
	mu              sync.Mutex
	sweptAt         time.Time
	expireCheckedAt time.Time // when this process last looked for ended leases
	prunedAt        time.Time
	repairedAt      time.Time
	mergedTo        atomic.Int64 // the newest tally row after the last merge
	mendedTo        atomic.Int64 // the last job that mend.sql has looked at; 0: begin with the first
	settler         settler
}

func (w *sweeper) due(at *time.Time, every time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(*at) < every {
		return false
	}
	*at = time.Now()
	return true
}

func (s *Store) sweepIfDue(ctx context.Context, every time.Duration) error {
	if !s.sweeper.due(&s.sweeper.sweptAt, every) {
		return nil
	}
	_, err := s.Sweep(ctx)
	if errors.As(err, new(unreadableError)) { // a sweep reports schedules that cannot be read; claims go on
		return nil
	}
	return err
}

// andSweep claims, and sweeps if no worker of this process does. The claim's transaction also
// reports whether leases have ended, so an idle worker needs only one call for both. If leases
// have ended and the claim found nothing, it is repeated after the sweep.
func (s *Store) andSweep(ctx context.Context, claim func(claimer) (found bool, err error)) error {
	if err := s.sweepIfDue(ctx, 2*pruneEvery); err != nil {
		return err
	}
	c := claimer{conn: s.db}
	if s.sweeper.due(&s.sweeper.expireCheckedAt, expireEvery) {
		c.due = &clockDue{leasesEnded: true} // leasesEnded stays true if the claim does not write it
	}
	found, err := claim(c)
	if err != nil || c.due == nil {
		return err
	}
	_ = s.mindTicks(ctx, *c.due) // an error is reported by the next sweep
	if !c.due.leasesEnded && !c.due.newQueues && !c.due.unsettled {
		return nil
	}
	if c.due.newQueues {
		err = s.addNewQueues(ctx, wakeups.All)
	}
	if c.due.leasesEnded {
		err = cmp.Or(s.expire(ctx, &dibs.Swept{}), err)
	}
	switch {
	case c.due.unsettled && found:
		s.settleSoon()
	case c.due.unsettled:
		err = cmp.Or(s.settle(ctx, 0), err)
	}
	if found { // the jobs are claimed, so an error of expire must not hide them
		return nil
	}
	if err == nil {
		_, err = claim(claimer{conn: s.db})
	}
	return err
}

// Sweep implements dibs.Store.
func (s *Store) Sweep(ctx context.Context) (dibs.Swept, error) {
	var out dibs.Swept
	if err := s.ready(ctx, "sweep"); err != nil {
		return out, err
	}
	s.sweeper.mu.Lock()
	s.sweeper.sweptAt = time.Now()
	s.sweeper.expireCheckedAt = s.sweeper.sweptAt
	s.sweeper.mu.Unlock()
	return out, wrap("sweep", s.sweep(ctx, &out))
}

func (s *Store) sweep(ctx context.Context, out *dibs.Swept) error {
	p, err := s.pending(ctx)
	if err == nil && p.readOnly { // report it even if nothing has to be written
		err = &checks.ReadOnlyError{Why: checks.ReadOnlyServer}
	}
	if err == nil && p.leasesEnded {
		if err = s.expire(ctx, out); err == nil {
			p, err = s.pending(ctx) // read again: expire has freed places in groups
		}
	}
	if err != nil {
		return err
	}
	s.noteSlots(p.percentUsed)
	// An error in one step is returned at the end; the other steps are made all the same.
	err = s.mindTicks(ctx, p.clockDue)
	if p.newQueues {
		err = cmp.Or(s.addNewQueues(ctx, wakeups.All), err)
	}
	if p.unsettled {
		err = cmp.Or(s.settle(ctx, settleFor), err)
		if now, pendingErr := s.pending(ctx); pendingErr == nil { // read again: settle has moved jobs to their groups
			p.groups = now.groups
		} else {
			err = cmp.Or(err, pendingErr)
		}
	}
	for _, q := range p.groups { // admit here too, as no claim from the queue may come soon
		err = cmp.Or(s.admit(ctx, q), err)
		s.Wake(q)
	}
	every := pruneEvery
	if p.newestTally == s.sweeper.mergedTo.Load() {
		every = pruneIdle
	}
	if !s.sweeper.due(&s.sweeper.prunedAt, every) {
		return err
	}
	merged := s.mergeTally(ctx, p.newestTally)
	retained := s.retain(ctx, out)
	mended := s.mendNext(ctx)
	return cmp.Or(err, merged, retained, mended)
}

// pending describes the work for a sweep.
type pending struct {
	clockDue
	newestTally int64    // id of the newest row of the tally
	percentUsed int      // percent of the server's connections that are in use
	readOnly    bool     // the server only reads
	groups      []string // queues with groups that have something to admit
}

func (s *Store) pending(ctx context.Context) (p pending, err error) {
	err = s.upkeep.run(ctx, s.clockStep(&p.clockDue), s.step("pending").into(&p.newestTally, &p.groups, &p.percentUsed, &p.readOnly))
	return p, err
}

// clockDue is what the clock has made due.
type clockDue struct {
	leasesEnded bool
	known       bool   // clock_due.sql has run
	nextTick    *int64 // microseconds until the next tick of a schedule; nil: no schedule ticks
	newQueues   bool   // there are queues for addNewQueues to make
	unsettled   bool   // jobs have ended that others come after, and nobody has settled that
}

// clockStep reads what the clock has made due.
func (s *Store) clockStep(to *clockDue) step {
	look := s.step("clock_due").into(&to.leasesEnded, &to.nextTick, &to.newQueues, &to.unsettled)
	look.begin = func() { *to = clockDue{known: true} }
	return look
}

// mindTicks sets the timer to the next tick of a schedule. If the tick has come and no timer
// will run it, or the timer has failed to, it runs the tick now.
func (s *Store) mindTicks(ctx context.Context, due clockDue) error {
	switch {
	case !due.known:
		return nil
	case due.nextTick == nil:
		s.timer.Unset()
		return nil
	}
	left := us(*due.nextTick)
	if s.tends.Load() && left > -tickRetry {
		s.timer.Set(max(left, 0))
		return nil
	}
	if left > 0 {
		return nil
	}
	return s.tick(ctx)
}

// expire takes jobs whose lease ended away from their workers. It skips claims that another
// sweep has locked, so several processes can do it at once.
func (s *Store) expire(ctx context.Context, out *dibs.Swept) error {
	for range sweepRounds {
		type takenFrom struct {
			queue    string
			n        int
			followed bool
		}
		looked, list := 0, []takenFrom{}
		err := s.upkeep.run(ctx, s.step("turn_expire", expireBatch).into(&looked, new(string)),
			collect(s.step("expire"), &list, func(t *takenFrom) []any { return []any{&t.queue, &t.n, &t.followed} }))
		if err != nil {
			return err
		}
		for _, t := range list {
			out.Expired += t.n
			s.Wake(t.queue)
			if t.followed {
				s.settleSoon()
			}
		}
		if looked < expireBatch {
			return nil
		}
	}
	return nil
}

// admit gives free places to the queue's grouped jobs, in a transaction of its own.
func (s *Store) admit(ctx context.Context, queue string) error {
	known, err := s.known(ctx, []string{queue})
	if err != nil {
		return err
	}
	q := known[queue]
	q.Name, q.grouped = queue, true
	return s.upkeep.run(ctx, s.admitSteps(q, new(string))...)
}

func (s *Store) admitKey(queue string) int64 { return lockKey(s.o.schema(), "admit", queue) }

// admitSteps take the turn to admit, and then give free places to grouped jobs.
func (s *Store) admitSteps(q queueRow, turn *string) []step {
	if !q.grouped {
		return nil
	}
	text := s.textFor(q)
	steps := []step{step{sql: text("turn_admit"), args: []any{q.Name, s.admitKey(q.Name)}}.into(turn), s.step("due", q.Name), {sql: text("admit"), args: []any{q.Name, q.groupRates}}}
	return slices.Concat(steps, s.dropRates(q), s.dropReached(q))
}

// dropRates deletes, after an admission, the rows of groups that have saved up all of their queue's
// rate again. Each second it looks at the next dropsRates groups.
func (s *Store) dropRates(q queueRow) []step {
	l := s.queues.lanesOf(q.Name)
	if q.GroupRate.N == 0 || !s.sweeper.due(&l.ratesLooked, dropRatesEvery) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	drop := s.step("drop_rates", q.Name, l.ratesAfter, dropsRates)
	drop.row = func(scan reads.Scan) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		return scan(&l.ratesAfter)
	}
	return []step{drop}
}

const (
	dropRatesEvery = time.Second
	dropsRates     = 1000
)

// inTurn runs a statement of the sweep, unless another process is running it.
func (s *Store) inTurn(ctx context.Context, what string, st step) (busy bool, err error) {
	var got string
	turn := s.step("turn_sweep", lockKey(s.o.schema(), "sweep", what)).into(&got)
	err = s.upkeep.run(ctx, turn, st)
	return got != "true", err
}

// retain deletes finished jobs whose queues keep them no longer. If a sweep cannot delete
// all, the next sweep continues at once: otherwise a busy queue's history would grow for
// ever.
func (s *Store) retain(ctx context.Context, out *dibs.Swept) error {
	for out.Pruned < pruneMost {
		n, periods := 0, 0
		busy, err := s.inTurn(ctx, "retention", s.step("retention", pruneBatch, pruneAll).into(&n, &periods))
		if err != nil {
			return err
		}
		out.Pruned += n
		out.Busy = out.Busy || busy
		if max(n, periods) < pruneBatch {
			return nil
		}
	}
	s.sweeper.mu.Lock()
	defer s.sweeper.mu.Unlock()
	s.sweeper.prunedAt = time.Time{}
	return nil
}

// mergeTally merges counts and moves what happened to the history, unless no count has changed since this process last
// merged them.
func (s *Store) mergeTally(ctx context.Context, newest int64) error {
	if newest == s.sweeper.mergedTo.Load() {
		return nil
	}
	for range mergeRounds {
		var from, to int
		_, err := s.inTurn(ctx, "tally", s.step("merge_tally", mergeBatch, checks.HistoryMinutes).into(&from, &to))
		if err != nil {
			return err
		}
		if from < mergeBatch || to > from/2 { // all rows have been merged, or another round would no longer halve them
			break
		}
	}
	p, err := s.pending(ctx)
	s.sweeper.mergedTo.Store(p.newestTally)
	return err
}
