package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/bucket"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/settings"
	"github.com/dibs-queue/dibs/internal/ticks"
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

// mayWork fails before the first claim if the role lacks a right that a worker needs: the
// claim might be allowed, but not the finish.
func (s *Store) mayWork(ctx context.Context) error {
	if s.rightsChecked.Load() {
		return nil
	}
	err := s.explain(ctx, s.denied(ctx, nil))
	s.rightsChecked.Store(err == nil)
	return err
}

// claimSweeping claims, and sweeps if it is time.
func (s *Store) claimSweeping(ctx context.Context, r dibs.ClaimRequest) (jobs []*dibs.RawJob, err error) {
	err = s.andSweep(ctx, func(c claimer) (found bool, err error) {
		jobs, err = s.claimUnderSettings(ctx, r, c)
		return len(jobs) > 0, err
	})
	return jobs, err
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
	// inTx: conn is the caller's transaction. Grouped jobs have been admitted before, in
	// another transaction. The claim sets no marks, since the caller may roll it back.
	inTx bool
	// due, if not nil, receives what the clock has made due: leases that have ended, ticks, new queues.
	due *clockDue
}

// clockSteps read into c.due what the clock has made due; there are none if c.due is nil.
func (c claimer) clockSteps(s *Store) []step {
	if c.due == nil {
		return nil
	}
	return []step{s.clockStep(c.due)}
}

// claimUnderSettings claims by the queue's settings as this process knows them, and claims again
// if the database has newer ones.
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

// claimInLanes claims by the settings q. current is false if the database has other settings,
// or if another claim has the queue's turn.
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
	if q.Order != dibs.FIFO || q.grouped { // marks would pass the places to which grouped jobs are put back
		jobs, current, err = s.claimUnmarked(ctx, q, r, c)
	} else {
		jobs, current, err = s.claimFromMarks(ctx, q, r, c, lanes.marks(r.Kinds))
	}
	if c.inTx && err == nil && !current {
		err = checkIsolation(ctx, fmt.Sprintf("claim from queue %q", q.Name), c)
	}
	if len(jobs) > 0 {
		lanes.claimedSinceLearned.Store(true)
		s.bell.Fruitful(q.Name)
		if s.o.Pooler { // no LISTEN behind a pooler: claim again soon, as more jobs may have come with these
			s.bell.WakeAfter(q.Name, reclaimPause)
		}
	}
	if q.Order != dibs.Fair { // claim.sql returns those in the order of their turns
		checks.SortClaimed(jobs, q.Order)
	}
	return jobs, current, err
}

// claimUnmarked claims from a queue without marks. A claim for some kinds reads past all due jobs of other kinds
// there. So one that has found nothing is followed by a pause, in which claims only look at the clock.
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

// claimFromMarks claims in each lane from its mark on, or from the lane's start if it has no mark.
func (s *Store) claimFromMarks(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer, m *marks) (jobs []*dibs.RawJob, current bool, err error) {
	for {
		if err := s.moveMarks(ctx, q, r.Kinds, m); err != nil {
			return nil, false, err
		}
		at, late := m.startPlaces()
		if c.inTx && len(late) > 0 { // the caller's transaction may itself be passed over, and have enqueued jobs below the marks
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
	lateEnded bool // a transaction that the marks had passed over has ended; then the claim takes nothing
	pages     int  // how many pages of the ready index the claim has read
}

// claimStatement claims in each lane from its mark in at; late lists the transactions that the marks have passed over.
func (s *Store) claimStatement(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer, at map[int16]mark, late []uint64) (got claimResult, err error) {
	var steps []step
	var turn string
	if !c.inTx {
		steps = s.admitSteps(q, &turn)
	}
	if q.limited() {
		steps = append(steps, s.step("turn_claim", q.Name))
	}
	row := claimedRow{queue: q.Name, worker: r.Worker, token: checks.NewToken(), limited: q.Concurrency > 0, timeout: q.JobTimeout}
	args := []any{q.Name, q.version, r.N, [16]byte(row.token), r.Worker, cmp.Or(r.Lease, q.Lease).Microseconds(), kinds(r.Kinds), q.limited()}
	args = append(args, s.queues.lanesOf(q.Name).args(q.Order, at)...)
	claim := row.claims(step{sql: s.claimText(q), args: append(args, plainArg(late))}, &got.jobs, &got.lateEnded, &got.pages)
	var rates paced
	steps = append(steps, s.underRates(q, row.token, claim, &rates)...)
	if err = c.run(ctx, append(c.clockSteps(s), steps...)...); err != nil {
		return claimResult{}, err
	}
	got.upToDate = row.n > 0
	got.lateEnded = got.lateEnded && got.upToDate // if the transaction was repeated, an earlier run may have set lateEnded
	switch lanes := s.queues.lanesOf(q.Name); {
	case turn == "busy" && len(got.jobs) < r.N: // another process has the turn, and may free more places than it fills
		s.bell.WakeAfter(q.Name, lanes.waitForTurn())
	case got.upToDate:
		lanes.turnsMissed.Store(0)
	}
	s.ringAfter(q.Name, rates, len(got.jobs), r.N)
	return got, nil
}

// paced is what rates let a claim do.
type paced struct {
	free int           // how many jobs may start by the queue's rate
	held time.Duration // how long jobs are held up; 0: not known
}

// underRates surrounds a claim from a queue that may have rates: the step before it computes how many jobs may start,
// and the step after it counts the jobs that have started.
func (s *Store) underRates(q queueRow, token dibs.Token, claim step, p *paced) []step {
	p.free = math.MaxInt
	if q.Rate.N == 0 && !q.groupRates {
		return []step{claim}
	}
	b := bucket.Of(q.Rate)
	spent := s.step("rate_spent", q.Name, [16]byte(token), b.Step, b.Slack, q.version).into(reads.Duration(&p.held))
	if q.Rate.N == 0 {
		return []step{claim, spent}
	}
	return []step{s.step("rate_free", q.Name, b.Step, b.Slack).into(reads.Number(&p.free)), claim, spent}
}

// ringAfter plans the next claim for the time at which rates let more jobs start, if this
// claim got fewer than wanted. If the queue's own rate cut the claim short, more jobs may
// start already.
func (s *Store) ringAfter(queue string, p paced, got, wanted int) {
	if got < wanted && (p.held > 0 || got >= p.free) {
		s.bell.WakeHeld(queue, p.held)
	}
}

// claimText is the statement for claims from a queue, without the parts that it does not need.
func (s *Store) claimText(q queueRow) string {
	switch {
	case q.groupRates || q.Order == dibs.Fair:
		return s.textFor(q)("claim")
	case q.limited() || q.grouped || q.Order != dibs.FIFO:
		return s.sql.get("claim")
	}
	return s.sql.plain("claim")
}

// countRunning prepares a queue for a new limit or rate. It takes the claims' turn, so claims that began before the
// change claim nothing more, and moves the jobs that already run to gate 3, where claims count them fast. It locks
// these jobs, so it has a transaction of its own.
func (s *Store) countRunning(ctx context.Context, q queueRow) error {
	if q.counted {
		return nil
	}
	err := s.upkeep.run(ctx, s.step("turn_claim", q.Name), s.step("count_running", q.Name))
	if err == nil {
		_, _, err = s.queue(ctx, q.Name)
	}
	return err
}

// kinds turns an empty list, which means all kinds, into nil, the SQL null.
func kinds(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

// claimedRow reads the rows of claim.sql and resume.sql, all into the same variables:
// allocating new ones for each row takes longer than all else.
type claimedRow struct {
	queue, worker string
	token         dibs.Token
	limited       bool          // the queue has a concurrency limit
	timeout       time.Duration // the queue's JobTimeout
	n             int           // rows that were read

	id                             pgtype.Int8
	kind, group, unique, until     pgtype.Text
	payload, metadata, errors      []byte
	priority, attempt, excused     pgtype.Int4
	maxAttempts, groupLimit        pgtype.Int4
	runAt, lease, created, claimed pgtype.Timestamptz
	cancel                         pgtype.Bool
}

// claims appends to jobs what a step claims. A row without a job means that none was due. The step's first columns
// are scanned into before.
func (c *claimedRow) claims(st step, jobs *[]*dibs.RawJob, before ...any) step {
	var flow pgtype.Int8
	to := slices.Concat(before, []any{
		&c.id, &c.kind, &c.payload, &c.metadata, &c.priority, &c.runAt, &c.attempt, &c.excused, &c.maxAttempts,
		&c.group, &c.groupLimit, &c.unique, &c.until, &c.lease, &c.cancel, &c.created, &c.claimed, &c.errors, &flow,
	})
	st.begin = func() { c.n, *jobs = 0, nil }
	st.row = func(scan reads.Scan) error {
		c.n++
		err := scan(to...)
		if err == nil && c.id.Valid {
			j := c.job()
			j.Flow = flow.Int64
			*jobs = append(*jobs, j)
		}
		return err
	}
	return st
}

// job is the job of the row that was read last.
func (c *claimedRow) job() *dibs.RawJob {
	j := &dibs.RawJob{
		ID: c.id.Int64, Queue: c.queue, Kind: c.kind.String, State: dibs.Running,
		Payload: c.payload, Metadata: c.metadata,
		Priority: int(c.priority.Int32), RunAt: utc(c.runAt),
		Attempt: int(c.attempt.Int32), Excused: int(c.excused.Int32), MaxAttempts: int(c.maxAttempts.Int32),
		Group: c.group.String, UniqueKey: c.unique.String, UniqueUntil: dibs.UniqueUntil(c.until.String),
		Worker: c.worker, Token: c.token, LeaseUntil: utc(c.lease), CancelRequested: c.cancel.Bool,
		CreatedAt: utc(c.created), ClaimedAt: utc(c.claimed), Limited: c.limited, Timeout: c.timeout,
	}
	if c.group.Valid {
		j.GroupLimit = int(c.groupLimit.Int32)
	}
	j.Errors = checks.ReadHistory(c.errors)
	checks.Claimed(j)
	ticks.Read(j)
	return j
}

// utc is a time, or zero for null and for the infinite ones, which only SQL by hand can leave.
func utc(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return checks.Time(t.Time)
}
