package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/settings"
)

// Claim implements dibs.Store. A claim passes through these layers; each calls the next:
//
//	Claim               checks the request; small claims made at the same time become one (merge.go)
//	claimSweeping       sweeps before the claim if it is time, and after it if leases have ended
//	claimUnderSettings  repeats the claim if the queue's settings have changed meanwhile
//	claimInLanes        learns which priorities are in use, and counts running jobs under a limit
//	claimFromMarks      starts where earlier claims found the first waiting job (marks.go)
//	claimStatement      claims, in one round trip: admits groups, takes the turn, runs claim.sql
//
// A claim in a caller's transaction begins at claimUnderSettings.
func (s *Store) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := s.ready(ctx, "claim", checks.Claim(&r)); err != nil {
		return nil, err
	}
	if err := s.mayWork(ctx); err != nil {
		return nil, wrapClaim(r.Queue, err)
	}
	if r.N >= mergeBelow {
		jobs, err := s.claimSweeping(ctx, r)
		return jobs, wrapClaim(r.Queue, err)
	}
	calls, done := s.claimCalls(r)
	defer done()
	jobs, err := calls.Call(ctx, r)
	return jobs, wrapClaim(r.Queue, err)
}

// claimSweeping claims, and sweeps if it is time.
func (s *Store) claimSweeping(ctx context.Context, r dibs.ClaimRequest) (jobs []*dibs.RawJob, err error) {
	err = s.andSweep(ctx, func(c claimer) (found bool, err error) {
		jobs, err = s.claimUnderSettings(ctx, r, c)
		return len(jobs) > 0, err
	})
	return jobs, err
}

// andSweep claims, and sweeps if no worker of this process does. The claim's own transaction
// reports whether leases have ended, so that an idle worker needs one call for both. The claim is
// repeated if it found nothing and leases have ended.
func (s *Store) andSweep(ctx context.Context, claim func(claimer) (found bool, err error)) error {
	if err := s.sweepIfDue(ctx, 2*pruneEvery); err != nil {
		return err
	}
	c := claimer{conn: s.db}
	if s.sweeper.due(&s.sweeper.expireCheckedAt, expireEvery) {
		c.due = &clockDue{leasesEnded: true} // stays true unless the claim writes it
	}
	found, err := claim(c)
	if err != nil || c.due == nil {
		return err
	}
	_ = s.mindTicks(ctx, *c.due) // sweeps report its error
	if !c.due.leasesEnded && !c.due.newQueues {
		return nil
	}
	if c.due.newQueues {
		err = s.addNewQueues(ctx)
	}
	if c.due.leasesEnded {
		err = cmp.Or(s.expire(ctx, &dibs.Swept{}), err)
	}
	if found { // these jobs are claimed, even if expire has failed
		return nil
	}
	if err == nil {
		_, err = claim(claimer{conn: s.db})
	}
	return err
}

func wrapClaim(queue string, err error) error {
	if err == nil {
		return nil
	}
	return wrap(fmt.Sprintf("claim from queue %q", queue), err)
}

// claimer is the connection of a claim, with what the claim must know about it.
type claimer struct {
	conn
	// inTx: conn is the caller's transaction. Grouped jobs have been admitted outside of
	// it, and it leaves no marks, since it may be rolled back.
	inTx bool
	// due, if not nil, is set to what the clock has made due.
	due *clockDue
}

// clockSteps ask for what the clock has made due, if the claim is to know it.
func (c claimer) clockSteps(s *Store) []step {
	if c.due == nil {
		return nil
	}
	return []step{s.clockStep(c.due)}
}

// claimUnderSettings prepares a claim for the settings of the queue that this process knows, and
// repeats it when they turn out to have changed.
func (s *Store) claimUnderSettings(ctx context.Context, r dibs.ClaimRequest, c claimer) ([]*dibs.RawJob, error) {
	q, ok := s.queues.get(r.Queue)
	var err error
	const rounds = 10
	for range rounds {
		if err == nil && (!ok || q.Paused) {
			q, ok, err = s.settingsForClaim(ctx, r.Queue, c)
		}
		if err != nil || !ok || q.Paused {
			return nil, err
		}
		jobs, current, err := s.claimInLanes(ctx, q, r, c)
		if err != nil || current {
			return jobs, err
		}
		old := q.version
		if q, ok, err = s.queue(ctx, r.Queue); err == nil && ok && q.version == old {
			// Nothing has changed: another claimer has the turn in a queue with a limit.
			s.bell.WakeAfter(q.Name, s.queues.lanesOf(q.Name).waitForTurn())
			return nil, nil
		}
	}
	return nil, settings.Overtaken("settings", rounds)
}

// claimInLanes claims under the settings q; current is false when the database has other
// settings, or another claim has the turn.
func (s *Store) claimInLanes(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer) (jobs []*dibs.RawJob, current bool, err error) {
	if q.limited() || q.grouped {
		if r.N, r.Ahead = r.N-r.Ahead, 0; r.N == 0 {
			return nil, true, nil
		}
	}
	lanes := s.queues.lanesOf(q.Name)
	if q.Order == dibs.LIFO || lanes.mustLearn() {
		if err := s.learnLanes(ctx, q, lanes); err != nil {
			return nil, false, err
		}
	}
	if q.limited() {
		if err := s.countRunning(ctx, q); err != nil {
			return nil, true, err
		}
	}
	if q.Order == dibs.LIFO || q.grouped { // grouped jobs are put back below marks
		jobs, current, err = s.claimUnmarked(ctx, q, r, c)
	} else {
		jobs, current, err = s.claimFromMarks(ctx, q, r, c, lanes.marks(r.Kinds))
	}
	if c.inTx && err == nil && !current {
		err = checkIsolation(ctx, fmt.Sprintf("claim from queue %q", q.Name), c)
	}
	if len(jobs) > 0 {
		lanes.jobsClaimed()
		s.bell.Fruitful(q.Name)
		if s.o.Pooler { // without LISTEN, look again soon: where jobs came, more may come
			s.bell.WakeAfter(q.Name, reclaimPause)
		}
	}
	checks.SortClaimed(jobs, q.Order)
	return jobs, current, err
}

// claimUnmarked claims from a queue without marks. A claim for some kinds reads past all due jobs of others there, so
// one that has found nothing is followed by a pause, in which only the clock is looked at.
func (s *Store) claimUnmarked(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer) (jobs []*dibs.RawJob, current bool, err error) {
	began := time.Now()
	if r.Again && !c.inTx {
		left, woken := s.rests.Left(q.Name, r.Kinds, began, s.bell.LastWoken(q.Name))
		if left > 0 {
			if woken {
				s.bell.WakeAfter(q.Name, left)
			}
			if steps := c.clockSteps(s); len(steps) > 0 {
				err = c.run(ctx, steps...)
			}
			return nil, true, err
		}
	}
	got, err := s.claimStatement(ctx, q, r, c, nil, nil)
	if err == nil && got.upToDate && !c.inTx {
		s.rests.Note(q.Name, r.Kinds, began, time.Duration(got.pages)*readPage, len(got.jobs) > 0)
	}
	return got.jobs, got.upToDate, err
}

// claimFromMarks claims, in each lane from its mark on if it has one.
func (s *Store) claimFromMarks(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer, m *marks) (jobs []*dibs.RawJob, current bool, err error) {
	for {
		if err := s.moveMarks(ctx, q, r.Kinds, m); err != nil {
			return nil, false, err
		}
		at, late := m.startPlaces()
		if c.inTx && len(late) > 0 { // the caller's own transaction may be among them, with jobs below the marks
			at, late = nil, nil
		}
		got, err := s.claimStatement(ctx, q, r, c, at, late)
		if err != nil {
			return nil, false, err
		}
		if got.upToDate && !got.lateEnded {
			m.recordReads(at != nil, got.pages, len(got.jobs))
		}
		if !got.lateEnded {
			return got.jobs, got.upToDate, nil
		}
		m.reportEnded()
		if seen := m.awaitSight(); seen != nil {
			select {
			case <-seen:
			case <-ctx.Done():
				return nil, false, ctx.Err()
			}
		}
	}
}

// claimResult is the result of one run of claim.sql.
type claimResult struct {
	jobs      []*dibs.RawJob
	upToDate  bool // the queue's settings are the ones that the claim was prepared for
	lateEnded bool // a transaction that marks have passed over has ended, so nothing was claimed
	pages     int  // how many pages of the ready index the claim has read
}

// claimStatement claims, in each lane from its mark in at on; late are the transactions that the marks have passed over.
func (s *Store) claimStatement(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer, at map[int16]mark, late []uint64) (got claimResult, err error) {
	lease := r.Lease
	if lease == 0 {
		lease = q.Lease
	}
	var steps []step
	var turn string
	if !c.inTx {
		steps = s.admitSteps(q, &turn)
	}
	if q.limited() {
		steps = append(steps, step{sql: s.sql.get("turn_claim"), args: []any{q.Name}})
	}
	row := claimedRow{queue: q.Name, worker: r.Worker, token: checks.NewToken(), limited: q.Concurrency > 0, timeout: q.JobTimeout}
	args := []any{q.Name, q.version, r.N, [16]byte(row.token), r.Worker, lease.Microseconds(), kinds(r.Kinds), q.limited()}
	args = append(args, s.queues.lanesOf(q.Name).args(q.Order, at)...)
	claim := step{
		sql:   s.claimText(q),
		args:  append(args, arrayText(late)),
		begin: func() { got = claimResult{} },
		row: func(scan func(...any) error) error {
			got.upToDate = true
			got.jobs, err = row.scan(got.jobs, scan, &got.lateEnded, &got.pages)
			return err
		},
	}
	var rates paced
	steps = append(steps, s.underRates(q, row.token, claim, &rates)...)
	if err = c.run(ctx, append(c.clockSteps(s), steps...)...); err != nil {
		return claimResult{}, err
	}
	switch lanes := s.queues.lanesOf(q.Name); {
	case turn == "busy" && len(got.jobs) < r.N: // the process in its turn may free more places than it fills
		s.bell.WakeAfter(q.Name, lanes.waitForTurn())
	case got.upToDate:
		lanes.turnHeld()
	}
	s.ringAfter(q.Name, rates, len(got.jobs), r.N)
	return got, nil
}

// claimText is the statement for claims from a queue, without the parts that it does not need.
func (s *Store) claimText(q queueRow) string {
	switch {
	case q.groupRates:
		return s.sql.rated("claim")
	case q.limited() || q.grouped || q.Order != dibs.FIFO:
		return s.sql.get("claim")
	}
	return s.sql.plain("claim")
}

var isolation = qualify.Text("select current_setting('transaction_isolation')")

// checkIsolation refuses a caller's transaction in which a call would find nothing, or an old state.
func checkIsolation(ctx context.Context, what string, c conn) error {
	var level string
	err := c.run(ctx, step{sql: isolation, row: func(scan func(...any) error) error { return scan(&level) }})
	if err == nil && (level == "repeatable read" || level == "serializable") {
		err = &dibs.InvalidError{Field: "transaction", Reason: fmt.Sprintf("must be READ COMMITTED to %s: its snapshot would miss what has changed since it began", what)}
	}
	return err
}

// countRunning shuts out claims that began before a limit or a rate was set, and moves the jobs
// that ran when a limit was set to gate 3, where claims count them fast. It locks them, so it has a transaction of its own.
func (s *Store) countRunning(ctx context.Context, q queueRow) error {
	if q.counted {
		return nil
	}
	err := s.upkeep.run(
		ctx,
		step{sql: s.sql.get("turn_claim"), args: []any{q.Name}},
		step{sql: s.sql.get("count_running"), args: []any{q.Name}},
	)
	if err == nil {
		_, _, err = s.queue(ctx, q.Name)
	}
	return err
}

func (s *Store) learnLanes(ctx context.Context, q queueRow, l *lanes) error {
	most := maxLanes
	if q.Order == dibs.LIFO {
		most = dibs.MaxPriority + 1 // LIFO needs them all: gaps are read oldest first
	}
	low, high := l.gaps()
	var priorities []int16
	err := s.upkeep.run(ctx, step{
		sql:   s.sql.get("lanes"),
		args:  []any{q.Name, low, high, most},
		begin: func() { priorities = nil },
		row: func(scan func(...any) error) error {
			var p int16
			err := scan(&p)
			priorities = append(priorities, p)
			return err
		},
	})
	if err == nil {
		l.add(most, priorities...)
	}
	return err
}

func (s *Store) admitKey(queue string) int64 { return lockKey(s.o.schema(), "admit", queue) }

// admitSteps take the turn to admit, and let grouped jobs take free places.
func (s *Store) admitSteps(q queueRow, turn *string) []step {
	if !q.grouped {
		return nil
	}
	text := s.sql.get
	if q.groupRates {
		text = s.sql.rated
	}
	return append([]step{
		{sql: text("turn_admit"), args: []any{q.Name, s.admitKey(q.Name)}, row: func(scan func(...any) error) error { return scan(turn) }},
		{sql: s.sql.get("due"), args: []any{q.Name}},
		{sql: text("admit"), args: []any{q.Name, q.groupRates}},
	}, s.dropRates(q)...)
}

// kinds turns an empty list, which means all kinds, into nil, the SQL null.
func kinds(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
