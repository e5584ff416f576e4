package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// Claim implements dibs.Store. A claim passes through layers, of which each calls the next:
//
//	Claim               checks the request; small claims made at the same time become one (merge.go)
//	claimAndSweep       has the store swept, before and where a claim learns that leases have ended
//	claimUnderSettings  repeats the claim when the queue's settings have changed meanwhile
//	claimInLanes        learns which priorities there are, and counts what runs under a limit
//	claimFromMarks      begins where earlier claims have found the first job that waits (marks.go)
//	claimStatement      claims, in one round trip: admits groups, takes the turn, runs claim.sql
//
// A claim in a caller's transaction begins at claimUnderSettings.
func (s *Store) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := s.check(ctx, "claim"); err != nil {
		return nil, err
	}
	if err := checks.Claim(&r); err != nil {
		return nil, err
	}
	if err := s.mayWork(ctx); err != nil {
		return nil, classifyClaim(r.Queue, err)
	}
	if r.N >= mergeBelow {
		jobs, err := s.claimAndSweep(ctx, r)
		return jobs, classifyClaim(r.Queue, err)
	}
	calls, done := s.claimCalls(r)
	defer done()
	jobs, err := calls.Call(ctx, r)
	return jobs, classifyClaim(r.Queue, err)
}

// claimAndSweep claims, and sweeps if no worker of this process does. The claim itself asks whether
// leases have ended, so that an idle worker needs one statement for both.
func (s *Store) claimAndSweep(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := s.sweepIfDue(ctx, 2*pruneEvery); err != nil {
		return nil, err
	}
	c := claimer{conn: s.db}
	if s.sweeper.due(&s.sweeper.looked, lostEvery) {
		c.lost = new(true) // unless the claim says otherwise
	}
	jobs, err := s.claimUnderSettings(ctx, r, c)
	if err != nil || c.lost == nil || !*c.lost {
		return jobs, err
	}
	err = s.expire(ctx, &dibs.Swept{})
	if len(jobs) > 0 { // they are claimed, whatever failed after
		return jobs, nil
	}
	if err != nil {
		return nil, err
	}
	return s.claimUnderSettings(ctx, r, claimer{conn: s.db})
}

func classifyClaim(queue string, err error) error {
	if err == nil {
		return nil
	}
	return classify(fmt.Sprintf("claim from queue %q", queue), err)
}

// claimer is where a claim runs.
type claimer struct {
	conn
	// tx: it is the caller's transaction. Grouped jobs have been admitted outside of
	// it, and it leaves no marks, since it may be rolled back.
	tx bool
	// lost, if it is not nil, gets whether leases have ended.
	lost *bool
}

// claimUnderSettings prepares a claim for the queue's settings, as this process knows them, and
// repeats it when they turn out to have changed.
func (s *Store) claimUnderSettings(ctx context.Context, r dibs.ClaimRequest, c claimer) ([]*dibs.RawJob, error) {
	q, ok := s.queues.get(r.Queue)
	var err error
	const rounds = 10
	for range rounds {
		if err == nil && (!ok || q.Paused) {
			q, ok, err = s.queueAnd(ctx, r.Queue, s.lost(c.lost)...)
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
			// Nothing has changed: another claimer has the turn of a queue with a limit.
			s.bell.again(q.Name, s.queues.lanesOf(q.Name).turnedAway())
			return nil, nil
		}
	}
	return nil, fmt.Errorf("settings changed %d times meanwhile: %w", rounds, dibs.ErrUnavailable)
}

// claimInLanes claims under the settings q; current is false when the database has
// others, or they are locked.
func (s *Store) claimInLanes(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer) (jobs []*dibs.RawJob, current bool, err error) {
	lanes := s.queues.lanesOf(q.Name)
	if q.Order == dibs.LIFO || lanes.mustLearn() {
		if err := s.learnLanes(ctx, q, lanes); err != nil {
			return nil, false, err
		}
	}
	if q.Concurrency > 0 {
		if err := s.countRunning(ctx, q); err != nil {
			return nil, true, err
		}
	}
	if q.Order == dibs.LIFO || q.grouped { // grouped jobs come in at their old places
		var got taken
		got, err = s.claimStatement(ctx, q, r, c, nil, nil)
		jobs, current = got.jobs, got.current
	} else {
		jobs, current, err = s.claimFromMarks(ctx, q, r, c, lanes.marks(r.Kinds))
	}
	if c.tx && err == nil && !current && (q.Concurrency > 0 || q.grouped) {
		err = checkIsolation(ctx, q.Name, c)
	}
	if len(jobs) > 0 {
		lanes.gave()
		if s.o.Pooler { // nobody hears of new jobs, and where there were some, there may be more soon
			s.bell.again(q.Name, lookAgain)
		}
	}
	sortJobs(jobs, q.Order)
	return jobs, current, err
}

// claimFromMarks claims from the marks on, if there are some.
func (s *Store) claimFromMarks(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer, m *marks) (jobs []*dibs.RawJob, current bool, err error) {
	for {
		if err := s.look(ctx, q, r.Kinds, m); err != nil {
			return nil, false, err
		}
		at, late := m.use()
		if c.tx && len(late) > 0 { // the caller's own may be among them: what it has locked or enqueued can lie below
			at, late = nil, nil
		}
		got, err := s.claimStatement(ctx, q, r, c, at, late)
		if err != nil {
			return nil, false, err
		}
		if got.current && !got.ended {
			m.used(at != nil, got.entries, len(got.jobs))
		}
		if !got.ended {
			return got.jobs, got.current, nil
		}
		m.found()
		if seen := m.seen(); seen != nil {
			select {
			case <-seen:
			case <-ctx.Done():
				return nil, false, ctx.Err()
			}
		}
	}
}

// taken is what one run of claim.sql gave.
type taken struct {
	jobs    []*dibs.RawJob
	current bool // the settings are those that it was prepared for
	ended   bool // one of the transactions passed over has ended: nothing was claimed
	entries int  // of the ready index that it has read
}

// claimStatement claims from the marks at on; late are transactions that these have passed over.
func (s *Store) claimStatement(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer, at map[int16]mark, late []uint64) (got taken, err error) {
	lease := r.Lease
	if lease == 0 {
		lease = q.Lease
	}
	var steps []step
	var turn string
	if !c.tx {
		steps = s.admitSteps(q, &turn)
	}
	var lost *bool
	limited := q.Concurrency > 0
	if limited {
		steps = append(steps, step{sql: s.sql.get("turn_claim"), args: []any{q.Name}})
	}
	row := claimedRow{queue: q.Name, worker: r.Worker, token: newToken()}
	args := []any{q.Name, q.version, r.N, [16]byte(row.token), r.Worker, lease.Microseconds(), kinds(r.Kinds), limited}
	args = append(args, s.queues.lanesOf(q.Name).args(q.Order, at)...)
	steps = append(steps, step{
		sql:   s.sql.get("claim"),
		args:  append(args, arrayText(late), c.lost != nil),
		begin: func() { got = taken{} },
		row: func(scan func(...any) error) error {
			got.current = true
			got.jobs, err = row.scan(got.jobs, scan, &got.ended, &got.entries, &lost)
			return err
		},
	})
	if err = c.run(ctx, steps...); err != nil {
		return taken{}, err
	}
	switch lanes := s.queues.lanesOf(q.Name); {
	case turn == "busy" && len(got.jobs) < r.N: // whoever has it may free more than they take
		s.bell.again(q.Name, lanes.turnedAway())
	case got.current:
		lanes.hadTurn()
	}
	if lost != nil {
		*c.lost = *lost
	}
	return got, nil
}

var isolation = qualify.Text("select current_setting('transaction_isolation')")

// checkIsolation says why a caller's transaction finds nothing in a queue with limits.
func checkIsolation(ctx context.Context, queue string, c conn) error {
	var level string
	err := c.run(ctx, step{sql: isolation, row: func(scan func(...any) error) error { return scan(&level) }})
	if err == nil && (level == "repeatable read" || level == "serializable") {
		err = &dibs.InvalidError{Field: "transaction", Reason: fmt.Sprintf("must be READ COMMITTED to claim from queue %q, which has groups or a concurrency limit", queue)}
	}
	return err
}

// countRunning moves the jobs that ran when a concurrency limit was set to where
// claims count them fast. It has its own transaction, since it locks them.
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
		most = dibs.MaxPriority + 1 // gaps are read oldest first
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

// admitSteps let grouped jobs take free places before a claim, in the turn to do so.
func (s *Store) admitSteps(q queueRow, turn *string) []step {
	if !q.grouped {
		return nil
	}
	return []step{
		{sql: s.sql.get("turn_admit"), args: []any{q.Name, s.admitKey(q.Name)}, row: func(scan func(...any) error) error { return scan(turn) }},
		{sql: s.sql.get("due"), args: []any{q.Name}},
		{sql: s.sql.get("admit"), args: []any{q.Name}},
	}
}

// kinds is nil, the SQL null, for all.
func kinds(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

func sortJobs(jobs []*dibs.RawJob, order dibs.Order) {
	slices.SortFunc(jobs, func(a, b *dibs.RawJob) int {
		if c := cmp.Compare(a.Priority, b.Priority); c != 0 {
			return c
		}
		c := cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
		if order == dibs.LIFO {
			return -c
		}
		return c
	})
}

func newToken() (t dibs.Token) {
	rand.Read(t[:]) // never fails: see crypto/rand
	return t
}

// Resume implements dibs.Store.
func (s *Store) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := s.check(ctx, "resume"); err != nil {
		return nil, err
	}
	if err := checks.Resume(&r); err != nil {
		return nil, err
	}
	q, ok, err := s.queue(ctx, r.Queue) // read, since nothing tells of a lease that was changed
	if err != nil || !ok {
		return nil, classify("resume", err)
	}
	lease := r.Lease
	if lease == 0 {
		lease = q.Lease
	}
	row := claimedRow{queue: r.Queue, worker: r.Worker, token: newToken()}
	var jobs []*dibs.RawJob
	err = s.db.run(ctx, step{
		sql:   s.sql.get("resume"),
		args:  []any{r.Queue, r.Worker, [16]byte(row.token), lease.Microseconds()},
		begin: func() { jobs = nil },
		row: func(scan func(...any) error) error {
			jobs, err = row.scan(jobs, scan)
			return err
		},
	})
	if err != nil {
		return nil, classify("resume", err)
	}
	sortJobs(jobs, q.Order)
	return jobs, nil
}
