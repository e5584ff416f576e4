package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/footprint"
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
func (s *Store) Locks(ctx context.Context, queue string, n int) (f footprint.Footprint, err error) {
	r := dibs.ClaimRequest{Queue: queue, Worker: "dibs locks", N: n}
	if err := s.ready(ctx, "locks"); err != nil {
		return f, err
	}
	if err := checks.Claim(&r); err != nil {
		return f, err
	}
	q, ok, err := s.queue(ctx, r.Queue)
	if err != nil {
		return f, err
	}
	if !ok {
		return f, checks.Failed("locks", fmt.Errorf("%w %q", dibs.ErrUnknownQueue, r.Queue))
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
	l := lockProbe{s: s, q: q, r: r, pid: t.Conn().PgConn().PID(), group: groupOf(jobs), queues: []string{q.Name}}
	for _, j := range jobs {
		l.jobs = append(l.jobs, j.ID)
	}
	if f.Locks, err = l.held(ctx, t); err == nil {
		f.Others, err = l.others(ctx)
	}
	return f, wrap("locks", err)
}

func groupOf(jobs []*dibs.RawJob) string {
	for _, j := range jobs {
		if j.Group != "" {
			return j.Group
		}
	}
	return ""
}

// connOn runs statements in a transaction of this store's own.
func (s *Store) connOn(t pgx.Tx) conn {
	c := conn(onPgx(t, t.Conn().Config()))
	if _, ok := s.db.(planningConn); ok {
		return planningConn{c}
	}
	return c
}

// within returns a store like s that does everything in the transaction t, wakes no
// worker, and has its own memory, so that s remembers nothing that is rolled back.
func (s *Store) within(t pgx.Tx) *Store {
	c := s.connOn(t)
	w := &Store{db: c, upkeep: c, o: s.o, sql: s.sql, wideFrom: s.wideFrom, closed: s.closed}
	w.o.Pooler = true // no NOTIFY is sent
	w.queues.init()
	w.bell = newBell(w)
	w.initMerged()
	return w
}

// lockProbe examines a claim in an open transaction, through the upkeep's connections,
// which are there even if callers have used up the pool.
type lockProbe struct {
	s     *Store
	q     queueRow
	r     dibs.ClaimRequest
	pid   uint32 // process id of the claim's connection
	group string // group of one of the claimed jobs, or ""
	// The rows of these queues and jobs are searched for locks.
	queues []string
	jobs   []int64
}

// held lists the locks that the transaction t holds.
func (l lockProbe) held(ctx context.Context, t pgx.Tx) ([]footprint.Lock, error) {
	var xid string
	if err := t.QueryRow(ctx, "select pg_catalog.pg_current_xact_id()::pg_catalog.xid::pg_catalog.text").Scan(&xid); err != nil {
		return nil, err
	}
	var locks []footprint.Lock
	var tables []string // tables in which rows may be locked
	err := l.s.upkeep.run(ctx, step{sql: l.s.sql.get("locks_held"), args: []any{int32(l.pid)}, row: func(scan func(...any) error) error {
		var kind, name, mode string
		var key int64
		err := scan(&kind, &name, &mode, &key)
		if kind == "table" && mode != "AccessShareLock" {
			tables = append(tables, name)
		}
		locks = append(locks, l.inWords(kind, name, mode, key))
		return err
	}})
	if err != nil {
		return nil, err
	}
	rows, err := l.rows(ctx, xid, tables)
	return append(locks, rows...), err
}

// inWords describes one lock.
func (l lockProbe) inWords(kind, name, mode string, key int64) footprint.Lock {
	lock := footprint.Lock{On: kind + " " + name, Mode: spaced(strings.TrimSuffix(mode, "Lock"))}
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

// relationMeans says which statements a lock on a table stops.
var relationMeans = map[string]string{
	"ACCESS SHARE":  "stops only DROP, ALTER TABLE",
	"ROW SHARE":     "stops only DROP, ALTER TABLE",
	"ROW EXCLUSIVE": "stops only DROP, ALTER, CREATE INDEX",
}

// spaced turns RowExclusive into ROW EXCLUSIVE.
func spaced(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// advisory says what an advisory lock guards.
func (l lockProbe) advisory(key int64) string {
	if key == l.s.admitKey(l.q.Name) {
		return "turn to admit groups"
	}
	return fmt.Sprintf("advisory lock %d, not of dibs", key)
}

// strengths are the row locks to try, from the weakest on. The first one that cannot be
// got (asked) shows which lock is held (held).
var strengths = []struct{ asked, held, means string }{
	{"key share", "FOR UPDATE", "skipped by claims; changes wait"},
	{"share", "FOR NO KEY UPDATE", "skipped by claims; changes wait"},
	{"no key update", "FOR SHARE", "changes wait"},
	{"update", "FOR KEY SHARE", "shared; skipped by claims under a limit"},
}

// multixactModes maps PostgreSQL's names of the modes of a multixact's members to strengths.
var multixactModes = map[string]int{"forupd": 0, "upd": 0, "fornokeyupd": 1, "nokeyupd": 1, "sh": 2, "keysh": 3}

// rows counts the rows that are locked, by table and strength.
func (l lockProbe) rows(ctx context.Context, xid string, tables []string) ([]footprint.Lock, error) {
	rows := map[string][]string{} // locked rows by table, whose strength must be found
	counts := map[string][]int{}  // numbers of locked rows by table and strength
	err := l.s.upkeep.run(ctx, step{sql: l.s.sql.get("locks_rows"), args: []any{xid, tables, l.queues, l.jobs}, row: func(scan func(...any) error) error {
		var table, ctid string
		var mode *string
		err := scan(&table, &ctid, &mode)
		if counts[table] == nil {
			counts[table] = make([]int, len(strengths))
		}
		if mode != nil {
			counts[table][multixactModes[*mode]]++
		} else {
			rows[table] = append(rows[table], ctid)
		}
		return err
	}})
	if err != nil {
		return nil, err
	}
	for table, ctids := range rows {
		if err := l.strengths(ctx, table, ctids, counts[table]); err != nil {
			return nil, err
		}
	}
	var locks []footprint.Lock
	for _, table := range slices.Sorted(maps.Keys(counts)) {
		for i, n := range counts[table] {
			if n > 0 {
				locks = append(locks, footprint.Lock{On: "rows of " + table, Mode: strengths[i].held, Rows: n, Means: strengths[i].means})
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
