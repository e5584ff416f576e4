package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Claim implements dibs.Store.
func (s *Store) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := s.check("claim"); err != nil {
		return nil, err
	}
	if err := checks.Claim(&r); err != nil {
		return nil, err
	}
	if err := s.sweepIfDue(ctx); err != nil {
		return nil, err
	}
	jobs, err := s.claimWith(ctx, r, claimer{conn: s.db})
	return jobs, classifyClaim(r.Queue, err)
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
}

// claimWith prepares a claim for the queue's settings and repeats it when they turn
// out to have changed.
func (s *Store) claimWith(ctx context.Context, r dibs.ClaimRequest, c claimer) ([]*dibs.RawJob, error) {
	q, ok, err := s.knownOrRead(ctx, r.Queue)
	const rounds = 10
	for range rounds {
		if err == nil && ok && q.Paused {
			q, ok, err = s.queue(ctx, r.Queue)
		}
		if err != nil || !ok || q.Paused {
			return nil, err
		}
		jobs, current, err := s.claimOnce(ctx, q, r, c)
		if err != nil || current {
			return jobs, err
		}
		old := q.version
		if q, ok, err = s.queue(ctx, r.Queue); err == nil && ok && q.version == old {
			// Nothing has changed: another claimer has the turn of a queue with a limit.
			return nil, nil
		}
	}
	return nil, fmt.Errorf("settings changed %d times meanwhile: %w", rounds, dibs.ErrUnavailable)
}

// claimOnce claims under the settings q; current is false when the database has
// others, or they are locked.
func (s *Store) claimOnce(ctx context.Context, q queueRow, r dibs.ClaimRequest, c claimer) (jobs []*dibs.RawJob, current bool, err error) {
	lease := r.Lease
	if lease == 0 {
		lease = q.Lease
	}
	lanes := s.queues.lanesOf(q.Name)
	if q.Order == dibs.LIFO || lanes.mustLearn() {
		if err := s.learnLanes(ctx, q, lanes); err != nil {
			return nil, false, err
		}
	}
	var steps []step
	if !c.tx {
		steps = s.admitSteps(q)
	}
	limited := q.Concurrency > 0
	if limited {
		if err := s.countRunning(ctx, q); err != nil {
			return nil, true, err
		}
		steps = append(steps, step{sql: s.sql.get("turn_claim"), args: []any{q.Name}})
	}
	token := newToken()
	// Grouped jobs come in at their old places, below any mark.
	full := c.tx || q.Order == dibs.LIFO || q.grouped || lanes.begin(r.Kinds, r.N)
	args := []any{q.Name, q.version, r.N, [16]byte(token), r.Worker, lease.Microseconds(), kinds(r.Kinds), limited}
	steps = append(steps, step{
		sql:   s.sql.get("claim"),
		args:  append(args, lanes.args(r.Kinds, q.Order, full)...),
		begin: func() { jobs, current = nil, false },
		row: func(scan func(...any) error) error {
			current = true
			j, err := scanClaimed(scan)
			if j != nil {
				j.Queue, j.Worker, j.Token = q.Name, r.Worker, token
				jobs = append(jobs, j)
			}
			return err
		},
	})
	start := time.Now()
	if err := c.run(ctx, steps...); err != nil {
		return nil, false, err
	}
	if c.tx {
		if !current && (limited || q.grouped) {
			err = checkIsolation(ctx, q.Name, c)
		}
	} else {
		lanes.done(r.Kinds, full, time.Since(start), jobs)
	}
	sortJobs(jobs, q.Order)
	return jobs, current, err
}

// checkIsolation says why a caller's transaction finds nothing in a queue with limits.
func checkIsolation(ctx context.Context, queue string, c conn) error {
	var level string
	err := c.run(ctx, step{sql: "select current_setting('transaction_isolation')", row: func(scan func(...any) error) error { return scan(&level) }})
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
	var priorities []int16
	err := s.upkeep.run(ctx, step{sql: s.sql.get("lanes"), args: []any{q.Name, most}, row: func(scan func(...any) error) error {
		var p int16
		err := scan(&p)
		priorities = append(priorities, p)
		return err
	}})
	if err == nil {
		l.learn(priorities)
	}
	return err
}

func (s *Store) admitKey(queue string) int64 { return lockKey(s.o.schema(), "admit", queue) }

// admitSteps let grouped jobs take free places before a claim.
func (s *Store) admitSteps(q queueRow) []step {
	if !q.grouped {
		return nil
	}
	return []step{
		{sql: s.sql.get("turn_admit"), args: []any{q.Name, s.admitKey(q.Name)}},
		{sql: s.sql.get("due"), args: []any{q.Name}},
		{sql: s.sql.get("admit"), args: []any{q.Name}},
	}
}

// scanClaimed reads a row of claim.sql; nil stands for "nothing was due".
func scanClaimed(scan func(...any) error) (*dibs.RawJob, error) {
	var (
		id                             *int64
		kind, payload, metadata        *string
		priority, attempt, excused     *int32
		maxAttempts, groupLimit        *int32
		group, unique, until, errors   *string
		runAt, lease, created, claimed *time.Time
		cancel                         *bool
	)
	err := scan(&id, &kind, &payload, &metadata, &priority, &runAt, &attempt, &excused, &maxAttempts,
		&group, &groupLimit, &unique, &until, &lease, &cancel, &created, &claimed, &errors)
	if err != nil || id == nil {
		return nil, err
	}
	j := &dibs.RawJob{
		ID: *id, Kind: *kind, State: dibs.Running, Payload: json.RawMessage(*payload),
		Priority: int(*priority), RunAt: runAt.UTC(), Attempt: int(*attempt), Excused: int(*excused), MaxAttempts: int(*maxAttempts),
		LeaseUntil: lease.UTC(), CancelRequested: *cancel, CreatedAt: created.UTC(), ClaimedAt: claimed.UTC(),
		UniqueKey: deref(unique), UniqueUntil: dibs.UniqueUntil(deref(until)),
	}
	if metadata != nil {
		j.Metadata = json.RawMessage(*metadata)
	}
	if group != nil {
		j.Group, j.GroupLimit = *group, int(*groupLimit)
	}
	j.Errors, err = history(errors)
	return j, err
}

func history(text *string) ([]dibs.AttemptError, error) {
	if text == nil {
		return nil, nil
	}
	var list []dibs.AttemptError
	if err := json.Unmarshal([]byte(*text), &list); err != nil {
		return nil, fmt.Errorf("error history: %w", err)
	}
	for i := range list {
		list[i].At = list[i].At.UTC()
	}
	return list, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
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
func (s *Store) Resume(ctx context.Context, r dibs.ResumeRequest) ([]*dibs.RawJob, error) {
	if err := s.check("resume"); err != nil {
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
	token := newToken()
	var jobs []*dibs.RawJob
	err = s.db.run(ctx, step{
		sql:   s.sql.get("resume"),
		args:  []any{r.Queue, r.Worker, [16]byte(token), lease.Microseconds()},
		begin: func() { jobs = nil },
		row: func(scan func(...any) error) error {
			j, err := scanClaimed(scan)
			if j != nil {
				j.Queue, j.Worker, j.Token = r.Queue, r.Worker, token
				jobs = append(jobs, j)
			}
			return err
		},
	})
	if err != nil {
		return nil, classify("resume", err)
	}
	sortJobs(jobs, q.Order)
	return jobs, nil
}
