package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// locksConns is one connection for the claim, one for the calls tried beside it, one to look at both.
const locksConns = 3

// Locks claims up to n jobs of a queue in a transaction that it rolls back, and reports
// what that locked and what it made other calls wait for. Meanwhile workers cannot claim
// these jobs. It looks at up to 10,000 rows of each table, and at up to 10,000 of the
// queue's ready, blocked, later and counted jobs each. The command dibs locks shows it. A
// queue that does not exist gives ErrUnknownQueue.
func (s *Store) Locks(ctx context.Context, queue string, n int) (f admin.Footprint, err error) {
	r := dibs.ClaimRequest{Queue: queue, Worker: "dibs locks", N: n}
	if err := s.ready(ctx, "locks", checks.Claim(&r)); err != nil {
		return f, err
	}
	q, ok, err := s.queue(ctx, r.Queue)
	if err == nil && !ok {
		err = checks.Failed("locks", fmt.Errorf("%w %q", dibs.ErrUnknownQueue, r.Queue))
	}
	if err != nil {
		return f, err
	}
	f.Queue, f.Paused = r.Queue, q.Paused
	if most := s.sidePool.Config().MaxConns; s.ownsPool && most < locksConns {
		return f, &dibs.InvalidError{Field: "options.max_conns", Reason: fmt.Sprintf("must be at least %d to look at locks, got %d", locksConns, most)}
	}
	t, end, err := s.begin(ctx)
	if err != nil {
		return f, wrap("locks", err)
	}
	defer end() // always rolls back
	start := time.Now()
	jobs, err := s.within(t).claimUnderSettings(ctx, r, claimer{conn: s.connOn(t)})
	f.Claimed, f.Took = len(jobs), time.Since(start)
	if err != nil || f.Claimed == 0 {
		return f, wrapClaim(r.Queue, err)
	}
	if q.Concurrency > 0 && !q.counted {
		f.Note = "The first claim under a new limit counts the running jobs: here in the claim's transaction, usually before it."
	}
	l := lockProbe{s: s, q: q, r: r, pid: t.Conn().PgConn().PID(), queues: []string{q.Name}}
	for _, j := range jobs {
		l.jobs, l.group = append(l.jobs, j.ID), cmp.Or(l.group, j.Group)
	}
	if f.Locks, err = l.held(ctx, t); err == nil {
		f.Others, err = l.others(ctx)
	}
	return f, wrap("locks", err)
}

// connOn runs statements in a transaction of this store's own.
func (s *Store) connOn(t pgx.Tx) conn {
	c := conn(onPgx(t, t.Conn().Config()))
	if _, ok := s.db.(planningConn); ok {
		return planningConn{c}
	}
	return c
}

// within returns a store that does everything in the transaction t and wakes no worker. It
// has its own caches, so that s does not remember what t rolls back.
func (s *Store) within(t pgx.Tx) *Store {
	c := s.connOn(t)
	w := &Store{db: c, upkeep: c, o: s.o, sql: s.sql, wideFrom: s.wideFrom, closed: s.closed}
	w.o.Pooler = true // no NOTIFY is sent
	w.queues.init()
	w.bell = newBell(w)
	w.initMerged()
	return w
}

// lockProbe examines a claim in an open transaction. It uses the upkeep's connections, which
// callers cannot use up.
type lockProbe struct {
	s     *Store
	q     queueRow
	r     dibs.ClaimRequest
	pid   uint32 // process id of the claim's connection
	group string // the group of one of the claimed jobs; empty: none has a group
	// The rows of these queues and jobs are searched for locks.
	queues []string
	jobs   []int64
}

// held lists the locks that the transaction t holds.
func (l lockProbe) held(ctx context.Context, t pgx.Tx) ([]admin.Lock, error) {
	var xid string
	if err := t.QueryRow(ctx, "select pg_catalog.pg_current_xact_id()::pg_catalog.xid::pg_catalog.text").Scan(&xid); err != nil {
		return nil, err
	}
	type heldLock struct {
		kind, name, mode string
		key              int64
	}
	var held []heldLock
	look := collect(l.s.step("locks_held", int32(l.pid)), &held, func(h *heldLock) []any { return []any{&h.kind, &h.name, &h.mode, &h.key} })
	if err := l.s.upkeep.run(ctx, look); err != nil {
		return nil, err
	}
	var locks []admin.Lock
	var tables []string // tables in which rows may be locked
	for _, h := range held {
		if h.kind == "table" && h.mode != "AccessShareLock" {
			tables = append(tables, h.name)
		}
		locks = append(locks, l.inWords(h.kind, h.name, h.mode, h.key))
	}
	rows, err := l.rows(ctx, xid, tables)
	return append(locks, rows...), err
}

// inWords describes one lock.
func (l lockProbe) inWords(kind, name, mode string, key int64) admin.Lock {
	lock := admin.Lock{On: kind + " " + name, Mode: strings.ToUpper(camelCase.ReplaceAllString(strings.TrimSuffix(mode, "Lock"), "$1 $2"))}
	switch kind {
	case "table", "sequence":
		lock.Means = relationMeans[lock.Mode]
	case "advisory":
		lock.On, lock.Means = l.advisory(key), "claims skip it; new settings wait"
	case "transactionid":
		lock.On, lock.Means = "its own transaction", "who needs a row of it waits for this"
	}
	return lock
}

// relationMeans says which statements each mode of a table's lock stops.
var relationMeans = map[string]string{
	"ACCESS SHARE":  "stops only DROP, ALTER TABLE",
	"ROW SHARE":     "stops only DROP, ALTER TABLE",
	"ROW EXCLUSIVE": "stops only DROP, ALTER, CREATE INDEX",
}

var camelCase = regexp.MustCompile("([a-z])([A-Z])")

// advisory says what an advisory lock guards.
func (l lockProbe) advisory(key int64) string {
	if key == l.s.admitKey(l.q.Name) {
		return "turn to admit groups"
	}
	return fmt.Sprintf("advisory lock %d, not of dibs", key)
}

// strengths are the row locks to try, weakest first. The first lock that cannot be got
// (asked) shows which lock is held (held).
var strengths = []struct{ asked, held, means string }{
	{"key share", "FOR UPDATE", "skipped by claims; changes wait"},
	{"share", "FOR NO KEY UPDATE", "skipped by claims; changes wait"},
	{"no key update", "FOR SHARE", "changes wait"},
	{"update", "FOR KEY SHARE", "shared; skipped by claims under a limit"},
}

// multixactModes maps PostgreSQL's names of the modes of a multixact's members to strengths.
var multixactModes = map[string]int{"forupd": 0, "upd": 0, "fornokeyupd": 1, "nokeyupd": 1, "sh": 2, "keysh": 3}

// rows counts the rows that are locked, by table and strength.
func (l lockProbe) rows(ctx context.Context, xid string, tables []string) ([]admin.Lock, error) {
	type lockedRow struct {
		table, ctid string
		mode        *string
	}
	var locked []lockedRow
	look := collect(l.s.step("locks_rows", xid, tables, l.queues, l.jobs), &locked, func(r *lockedRow) []any { return []any{&r.table, &r.ctid, &r.mode} })
	if err := l.s.upkeep.run(ctx, look); err != nil {
		return nil, err
	}
	rows := map[string][]string{} // locked rows by table, whose strength must be found
	counts := map[string][]int{}  // numbers of locked rows by table and strength
	for _, r := range locked {
		if counts[r.table] == nil {
			counts[r.table] = make([]int, len(strengths))
		}
		if r.mode != nil {
			counts[r.table][multixactModes[*r.mode]]++
		} else {
			rows[r.table] = append(rows[r.table], r.ctid)
		}
	}
	for table, ctids := range rows {
		if err := l.strengths(ctx, table, ctids, counts[table]); err != nil {
			return nil, err
		}
	}
	var locks []admin.Lock
	for _, table := range slices.Sorted(maps.Keys(counts)) {
		for i, n := range counts[table] {
			if n > 0 {
				locks = append(locks, admin.Lock{On: "rows of " + table, Mode: strengths[i].held, Rows: n, Means: strengths[i].means})
			}
		}
	}
	return locks, nil
}

// strengths finds how strongly rows are locked, by trying which locks can still be got.
// It composes the SQL, as a table's name cannot be a parameter.
func (l lockProbe) strengths(ctx context.Context, table string, ctids []string, counts []int) error {
	t, err := l.s.sidePool.Begin(ctx)
	if err != nil {
		return err
	}
	defer t.Rollback(context.WithoutCancel(ctx))
	left := len(ctids)
	for i, st := range strengths {
		free := 0
		text := fmt.Sprintf("select count(*) from (select from %s.%s where ctid = any ($1::text::tid[]) for %s skip locked) r", ident(l.s.o.schema()), ident(table), st.asked)
		if err := t.QueryRow(ctx, qualify.Text(text), "{\""+strings.Join(ctids, `","`)+"\"}").Scan(&free); err != nil {
			return err
		}
		counts[i] += left - free
		left = free
	}
	return nil
}

// others makes the calls that other processes may make while the claim's transaction is
// open, each in a transaction that it rolls back.
func (l lockProbe) others(ctx context.Context) ([]admin.Other, error) {
	enqueue := func(group string) func(*Store) (string, error) {
		return func(s *Store) (string, error) {
			out, _, err := s.enqueue(ctx, []dibs.NewJob{{Queue: l.q.Name, Kind: "dibs locks", Group: group}}, s.db)
			return noted(out, err)
		}
	}
	tries := []struct {
		what string
		do   func(*Store) (note string, err error)
	}{
		{"another claim", func(s *Store) (string, error) {
			jobs, err := s.claimUnderSettings(ctx, l.r, claimer{conn: s.db})
			return l.noteOfClaim(len(jobs)), err
		}},
		{"enqueue into the queue", enqueue("")},
		{"enqueue into the same group", enqueue(l.group)},
		{"extend another job", l.withAnother(ctx, func(s *Store, j *dibs.RawJob) error {
			e, err := s.Extend(ctx, []dibs.Lease{j.Lease()}, l.q.Lease)
			if err == nil && len(e.Lost) > 0 {
				return dibs.ErrLeaseLost
			}
			return err
		})},
		{"finish another job", l.withAnother(ctx, func(s *Store, j *dibs.RawJob) error {
			return s.finish(ctx, []dibs.Outcome{j.Lease().Complete(nil)}, finisher{conn: s.db})
		})},
		{"stats", func(s *Store) (string, error) { return noted(s.Stats(ctx)) }},
		{"list", func(s *Store) (string, error) { return noted(s.List(ctx, admin.Filter{Queue: l.q.Name})) }},
		{"a change of settings", func(s *Store) (string, error) {
			return noted(s.ChangeQueue(ctx, l.q.Name, dibs.QueueChange{Paused: &l.q.Paused}.Apply))
		}},
	}
	var all []admin.Other
	for _, try := range tries {
		if try.what == "enqueue into the same group" && l.group == "" {
			continue
		}
		o, err := l.try(ctx, try.do)
		if err != nil {
			return nil, err
		}
		o.What = try.what
		all = append(all, o)
	}
	return all, nil
}

// noted adds an empty note to the error of a call whose result is of no interest.
func noted[T any](_ T, err error) (note string, e error) { return "", err }

func (l lockProbe) noteOfClaim(n int) string {
	switch {
	case n > 0:
		return "gets other jobs"
	case l.q.Concurrency > 0:
		return "gets nothing: claims under a limit take turns"
	}
	return "finds no other job due"
}

// noOther is the note of a call for which no other job was found.
const noOther = "no other job"

// withAnother calls do with a running job of another worker, or with one that it claims for
// this if there is none. It takes the job with the latest lease, as a job whose lease has ended
// cannot be extended or finished.
func (l lockProbe) withAnother(ctx context.Context, do func(*Store, *dibs.RawJob) error) func(*Store) (string, error) {
	return func(s *Store) (string, error) {
		page, err := s.List(ctx, admin.Filter{Queue: l.q.Name, State: dibs.Running, Limit: 100})
		if err != nil {
			return noOther, err
		}
		if len(page.Jobs) > 0 {
			last := slices.MaxFunc(page.Jobs, func(a, b *dibs.RawJob) int { return a.LeaseUntil.Compare(b.LeaseUntil) })
			if err := do(s, last); !errors.Is(err, dibs.ErrLeaseLost) {
				return "", err
			}
		}
		r := l.r
		r.N = 1
		jobs, err := s.claimUnderSettings(ctx, r, claimer{conn: s.db})
		if err != nil || len(jobs) == 0 {
			return noOther, err
		}
		return "", do(s, jobs[0])
	}
}

// awaitedEvery is how often try asks the server whether the call waits for the claim.
const awaitedEvery = 100 * time.Millisecond

// try measures one call, and cancels it once it is seen to wait for the claim.
func (l lockProbe) try(ctx context.Context, do func(*Store) (string, error)) (o admin.Other, err error) {
	t, err := l.s.beginOn(ctx, l.s.sidePool)
	if err != nil {
		return o, err
	}
	defer t.Rollback(context.WithoutCancel(ctx))
	s := l.s.within(t)
	if _, _, err := s.queue(ctx, l.q.Name); err != nil { // read the settings before the clock starts: other processes have cached them
		return o, err
	}
	done := make(chan error, 1)
	start := time.Now()
	go func() {
		note, err := do(s)
		o.Note, o.Took, o.Untried = note, time.Since(start), note == noOther
		done <- err
	}()
	waits := ""
	for {
		select {
		case err := <-done:
			if o.WaitsFor = waits; waits != "" {
				err = nil // it failed because awaited cancelled its statement
			}
			return o, err
		case <-time.After(awaitedEvery):
			if waits == "" {
				if waits, err = l.awaited(ctx, t); err != nil {
					return o, errors.Join(err, <-done)
				}
			}
		}
	}
}

// awaited returns the claim's lock for which t waits, if any, and then cancels t's statement.
func (l lockProbe) awaited(ctx context.Context, t pgx.Tx) (what string, err error) {
	pid := int32(t.Conn().PgConn().PID())
	var kind, table string
	var key int64
	if err := l.s.upkeep.run(ctx, l.s.step("locks_awaited", pid, int32(l.pid)).into(&kind, &table, &key)); err != nil {
		return "", err
	}
	switch kind {
	case "":
		return "", nil
	case "advisory":
		what = l.advisory(key)
	case "relation":
		what = "the table " + table
	default:
		what = "a row of " + table
	}
	return what, l.s.upkeep.run(ctx, step{sql: "select pg_catalog.pg_cancel_backend($1)", args: []any{pid}})
}
