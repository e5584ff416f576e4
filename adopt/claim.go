package adopt

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/nesting"
)

// claimCall is one call that claims rows, with the parameters of its statements.
type claimCall struct {
	worker string
	token  dibs.Token
	lease  time.Duration
	values map[string]any
	sent   time.Time
}

func (s *Store) newCall(worker string, lease time.Duration) (*claimCall, error) {
	p := s.plan
	switch {
	case lease == 0:
		lease = p.Lease
	case lease != p.Lease && !p.SideTable && p.Timeout == nil:
		return nil, adopted.Invalid("lease", "is %v in the mapping; another length needs claim.timeout or the side table", p.Lease)
	}
	t := &claimCall{worker: worker, lease: lease, sent: time.Now()}
	rand.Read(t.token[:])
	t.values = map[string]any{
		"token": t.token.String(), "worker": worker, "lease": lease.Seconds(), "micros": lease.Microseconds(),
		"has": nil, "passed": s.passed.keys(),
	}
	return t, nil
}

// Claim is dibs.Store.Claim. Payloads show rows as they were just before or just after the claim.
func (s *Store) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	t, err := s.checkClaim(&r)
	if err != nil || t == nil {
		return nil, err
	}
	if s.plan.LockOnly() {
		return nil, adopted.Invalid("claim", "the mapping names no column that a claim could write: claim in a transaction (Store.SQLTx), name columns, or set side_table")
	}
	s.sweepIfDue(ctx)
	rows, err := s.claimAround(ctx, t, r.N)
	if err != nil {
		return nil, adopted.Classify("claim", err)
	}
	if len(rows) > 0 && len(rows) < r.N {
		s.wakers.later(reclaimDelay)
	}
	return s.jobs(rows, t), nil
}

// Due is dibs.Store.Due. A table is one queue, and only a claim looks at its rows.
func (s *Store) Due(ctx context.Context, queues, kinds []string) ([]string, error) {
	if err := cmp.Or(checks.Context(ctx), checks.Due(queues, kinds)); err != nil {
		return nil, err
	}
	for _, q := range queues {
		if err := s.usable(q); err != nil {
			return nil, err
		}
	}
	if !s.hasKind(kinds) {
		return nil, nil
	}
	return slices.Clone(queues), nil
}

// reclaimDelay is how long after a claim of all available rows a worker claims again: other
// programs, which do not notify workers, are probably still inserting rows.
const reclaimDelay = 5 * time.Millisecond

// checkClaim checks a request and returns its call, or nil if no row can have one of the
// requested kinds.
func (s *Store) checkClaim(r *dibs.ClaimRequest) (*claimCall, error) {
	if r.Queue == "" {
		r.Queue = s.Queue()
	}
	if err := checks.Claim(r); err != nil {
		return nil, err
	}
	if err := s.usable(r.Queue); err != nil {
		return nil, err
	}
	if r.N, r.Ahead = r.N-r.Ahead, 0; r.N == 0 { // rows claimed ahead of their run would look to other programs as if they were running
		return nil, nil
	}
	t, err := s.newCall(r.Worker, r.Lease)
	if err != nil || !s.hasKind(r.Kinds) {
		return nil, err
	}
	t.values["kinds"] = jsonArray(r.Kinds)
	return t, nil
}

// hasKind reports whether rows can have one of the kinds. Without a column for kinds, all rows
// have the kind named like the queue.
func (s *Store) hasKind(kinds []string) bool {
	return s.plan.Kind != "" || len(kinds) == 0 || slices.Contains(kinds, s.Queue())
}

// jsonArray writes strings as a JSON array; nil for none.
func jsonArray(all []string) any {
	if len(all) == 0 {
		return nil
	}
	raw, _ := json.Marshal(all) // no error: they are strings
	return string(raw)
}

// lookSizes says how many rows a claim of n reads, first few and at last all. The next size
// is only tried if too many of the rows read belong to groups that are full.
func lookSizes(n int) []int { return []int{4 * n, 40*n + 1000, math.MaxInt32} }

func (s *Store) claim(ctx context.Context, t *claimCall, n int) (rows []*row, err error) {
	if s.do.Mark == nil && s.do.Lease == nil && s.do.Turn == nil && s.do.Running == nil { // one statement makes the whole claim
		return s.choose(ctx, s.db, t, n)
	}
	err = s.write(ctx, func(q adopted.Querier) error {
		rows, err = s.claimIn(ctx, q, t, n)
		return err
	})
	return rows, err
}

// claimIn claims in a transaction.
func (s *Store) claimIn(ctx context.Context, q adopted.Querier, t *claimCall, n int) ([]*row, error) {
	n, err := s.freePlaces(ctx, q, n)
	if err != nil || n == 0 {
		return nil, err
	}
	if s.do.Turn != nil {
		return s.claimInTurn(ctx, q, t, n)
	}
	rows, err := s.choose(ctx, q, t, n)
	if err != nil {
		return nil, err
	}
	err = s.record(ctx, q, t, &rows)
	return rows, err
}

// freePlaces is how many of n rows the queue's limit allows now: none while another claim counts the running rows.
func (s *Store) freePlaces(ctx context.Context, q adopted.Querier, n int) (int, error) {
	if s.do.Running == nil {
		return n, nil
	}
	if s.do.Alone != nil {
		has, err := run(ctx, q, s.do.Alone, nil, scanInt)
		if err != nil || has[0] == 0 {
			s.wakers.later(reclaimDelay)
			return 0, err
		}
	}
	running, err := run(ctx, q, s.do.Running, nil, scanInt)
	if err != nil {
		return 0, err
	}
	return max(0, min(n, s.plan.Concurrency-running[0])), nil
}

func scanInt(rows *sql.Rows) (n int, err error) { return n, rows.Scan(&n) }

func (s *Store) choose(ctx context.Context, q adopted.Querier, t *claimCall, n int) (rows []*row, err error) {
	defer func(passed any) { t.values["passed"] = passed }(t.values["passed"])
	for _, look := range lookSizes(n) {
		switch {
		case s.plan.Dialect.RowLocks && len(rows) > 0: // these are locked, so they must be claimed: others have skipped them
			t.values["passed"] = s.passed.keys(rows...)
		case s.do.Mark != nil || s.do.Lease != nil: // nothing is written yet, so the next statement finds these rows again
			rows = nil
		}
		t.values["n"], t.values["look"] = n-len(rows), look
		more, err := run(ctx, q, s.do.Claim, t.values, scanRow)
		rows = append(rows, more...)
		if err != nil || len(rows) >= n || s.sawAll(t, look) {
			return rows, err
		}
	}
	return rows, nil
}

// sawAll reports whether a claim that has read that many rows at most has read all that are available.
func (s *Store) sawAll(t *claimCall, look int) bool {
	if !slices.Contains(s.do.Claim.Params, "look") {
		return true
	}
	chosen, counted := t.values[adopted.Chosen].(int)
	return counted && chosen < look && s.plan.Mapping.Group.Column == ""
}

// record writes a claim into the side table, into its rows, or into both.
func (s *Store) record(ctx context.Context, q adopted.Querier, t *claimCall, rows *[]*row) error {
	if len(*rows) == 0 {
		return nil
	}
	if s.do.Lease != nil {
		items := sideKeysOf(*rows)
		for i, r := range *rows {
			if r.group.Valid {
				items[i].Group = &r.group.String
			}
		}
		t.values["batch"] = batch(items)
		leased, err := run(ctx, q, s.do.Lease, t.values, scanLease)
		if err != nil {
			return err
		}
		*rows = withLeases(*rows, leased)
	}
	chosen := len(*rows)
	err := s.mark(ctx, q, t, rows)
	if err == nil && s.do.Lease != nil && len(*rows) < chosen { // the others would stay leased
		err = errHidden
	}
	return err
}

// mark writes a claim into its rows, unless the statement that chose them has done so.
func (s *Store) mark(ctx context.Context, q adopted.Querier, t *claimCall, rows *[]*row) error {
	if s.do.Mark == nil || len(*rows) == 0 {
		return nil
	}
	t.values["batch"] = batch(keysOf(*rows))
	marked, err := run(ctx, q, s.do.Mark, t.values, scanMarks)
	if err != nil {
		return err
	}
	*rows = matched(*rows, marked, func(r, m *row) {
		if !s.plan.SideTable { // the side table already has the lease
			// The lease counts from a time that is not after the one that the claim has written.
			r.fence, r.claimed, r.attempt = m.fence, min(r.claimed, m.claimed), m.attempt
		}
	})
	return nil
}

// jobs remembers the claims of rows and makes jobs of them.
func (s *Store) jobs(rows []*row, t *claimCall) []*dibs.RawJob {
	jobs := make([]*dibs.RawJob, len(rows))
	for i, r := range rows {
		token := t.token
		if len(s.plan.Fence) > 0 && !s.plan.SideTable {
			token = tokenOf(s.plan, r.fence)
		}
		r.worker = sql.NullString{String: t.worker, Valid: true}
		job := s.job(r)
		job.State, job.Token = dibs.Running, token
		job.ClaimedAt = checks.Time(time.UnixMicro(r.claimed))
		job.LeaseUntil = job.ClaimedAt.Add(t.lease)
		s.held.put(job.Lease(), &claim{key: r.key, fence: r.fence, attempt: job.Attempt - job.Excused, most: job.MaxAttempts, until: t.sent.Add(t.lease)})
		jobs[i] = job
	}
	return jobs
}

// job turns a row into a job. Without a column for it a field is zero, except that the attempt
// is 1.
func (s *Store) job(r *row) *dibs.RawJob {
	p := s.plan
	id := s.held.id(r.key)
	job := &dibs.RawJob{
		ID: id, Queue: s.Queue(), Kind: s.Queue(), State: dibs.Waiting,
		Payload: payload(r.payload), Attempt: int(r.attempt.Int64), Excused: r.excused,
		MaxAttempts: r.limit(), Group: r.group.String, GroupLimit: p.Mapping.Group.Limit,
		Worker: r.worker.String, Errors: r.errors,
	}
	if id >= firstHash {
		job.Key = keyName(r.key)
	}
	if p.Kind != "" {
		job.Kind = r.kind.String
	}
	if job.Group == "" {
		job.GroupLimit = 0
	}
	if r.runAt.Valid {
		job.RunAt = checks.Time(time.UnixMicro(r.runAt.Int64))
	}
	if !r.attempt.Valid {
		job.Attempt = 1
	}
	return job
}

func payload(text sql.NullString) json.RawMessage {
	raw := []byte(text.String)
	switch {
	case !text.Valid:
		return json.RawMessage("null")
	case utf8.Valid(raw) && !nesting.Over(raw, dibs.MaxDepth) && json.Valid(raw):
		return raw
	}
	quoted, _ := json.Marshal(text.String) // no error: it is a string
	return quoted
}

// Resume is dibs.Store.Resume. It needs claim.locked_by in the mapping, or the side table.
func (s *Store) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if r.Queue == "" {
		r.Queue = s.Queue()
	}
	if err := checks.Resume(&r); err != nil {
		return nil, err
	}
	if err := s.usable(r.Queue); err != nil {
		return nil, err
	}
	if s.do.Again == nil && s.do.Resume == nil {
		return nil, adopted.Invalid("resume", "no column names the worker of a row: name claim.locked_by in the mapping, or set side_table")
	}
	locked, _ := s.plan.On.Column(s.plan.Claim.LockedBy)
	if limit := locked.Length; s.do.Again == nil && limit > 0 && utf8.RuneCountInString(r.Worker) > limit {
		return nil, adopted.Invalid("worker", "has more than the %d characters that %s holds: other workers may have the same first ones", limit, locked.Name)
	}
	t, err := s.newCall(r.Worker, r.Lease)
	if err != nil {
		return nil, err
	}
	t.values["n"], t.values["look"], t.values["kinds"] = dibs.MaxBatch, dibs.MaxBatch, nil
	var rows []*row
	err = s.write(ctx, func(q adopted.Querier) error {
		if s.do.Again == nil {
			if rows, err = run(ctx, q, s.do.Resume, t.values, scanRow); err != nil {
				return err
			}
			return s.mark(ctx, q, t, &rows)
		}
		leased, err := run(ctx, q, s.do.Again, t.values, scanLease)
		if err != nil || len(leased) == 0 {
			return err
		}
		t.values["batch"] = batch(keysOf(leased))
		if rows, err = run(ctx, q, s.do.Fetch, t.values, scanSeen); err != nil {
			return err
		}
		gone := func(r *row) bool { return r.state != string(dibs.Running) } // another program has ended the row or moved it to another queue
		rows = withLeases(slices.DeleteFunc(rows, gone), leased)
		return s.mark(ctx, q, t, &rows)
	})
	if err != nil {
		return nil, adopted.Classify("resume", err)
	}
	return s.jobs(rows, t), nil
}
