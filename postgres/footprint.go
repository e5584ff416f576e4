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

// locksConns are for the claim, for what is tried beside it, and for who looks at both.
const locksConns = 3

// Locks claims up to n jobs of a queue in a transaction that it rolls back, and tells
// what that locked and what it made others wait for. Meanwhile these jobs are held
// back from workers. It looks at up to 10,000 rows of each table, and of the queue's jobs
// at so many that are ready, blocked, for later and counted. It is what the command dibs
// locks shows. A queue that does not exist gives ErrUnknownQueue.
func (s *Store) Locks(ctx context.Context, queue string, n int) (f footprint.Footprint, err error) {
	r := dibs.ClaimRequest{Queue: queue, Worker: "dibs locks", N: n}
	if err := s.check(ctx, "locks"); err != nil {
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
	if most := s.side.Config().MaxConns; s.own && most < locksConns {
		return f, &dibs.InvalidError{Field: "options.max_conns", Reason: fmt.Sprintf("must be at least %d to look at locks, got %d", locksConns, most)}
	}
	t, end, err := s.begin(ctx)
	if err != nil {
		return f, classify("locks", err)
	}
	defer end() // always by a rollback: that is the point
	start := time.Now()
	jobs, err := s.within(t).claimUnderSettings(ctx, r, claimer{conn: s.connOn(t)})
	f.Claimed, f.Took = len(jobs), time.Since(start)
	if err != nil || f.Claimed == 0 {
		return f, classifyClaim(r.Queue, err)
	}
	if q.Concurrency > 0 && !q.counted {
		f.Note = "The first claim under a new limit counts what runs: here in the claim's transaction, else before it."
	}
	l := look{s: s, q: q, r: r, pid: t.Conn().PgConn().PID(), group: groupOf(jobs), queues: []string{q.Name}}
	for _, j := range jobs {
		l.jobs = append(l.jobs, j.ID)
	}
	if f.Locks, err = l.held(ctx, t); err == nil {
		f.Others, err = l.others(ctx)
	}
	return f, classify("locks", err)
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
	if _, ok := s.db.(planned); ok {
		return planned{c}
	}
	return c
}

// within is a store like s that does everything in one transaction, wakes nobody, and
// remembers nothing that will be rolled back.
func (s *Store) within(t pgx.Tx) *Store {
	c := s.connOn(t)
	w := &Store{db: c, upkeep: c, o: s.o, sql: s.sql, closed: s.closed}
	w.o.Pooler = true // nobody is notified
	w.queues.init()
	w.bell = newBell(w)
	w.initMerged()
	return w
}

// look examines a claim in an open transaction, through connections of the upkeep's,
// which there are even if callers have used up the pool.
type look struct {
	s   *Store
	q   queueRow
	r   dibs.ClaimRequest
	pid uint32 // of the claim's connection
	// group of one of the claimed jobs, or ""
	group string
	// queues and jobs are among whose rows locks are looked for.
	queues []string
	jobs   []int64
}

// held lists what the transaction t holds.
func (l look) held(ctx context.Context, t pgx.Tx) ([]footprint.Lock, error) {
	var xid string
	if err := t.QueryRow(ctx, "select pg_catalog.pg_current_xact_id()::pg_catalog.xid::pg_catalog.text").Scan(&xid); err != nil {
		return nil, err
	}
	var locks []footprint.Lock
	var tables []string // that rows may be locked in
	err := l.s.upkeep.run(ctx, step{sql: l.s.sql.get("locks_held"), args: []any{int32(l.pid)}, row: func(scan func(...any) error) error {
		var kind, name, mode string
		var key int64
		err := scan(&kind, &name, &mode, &key)
		if kind == "table" && mode != "AccessShareLock" {
			tables = append(tables, name)
		}
		locks = append(locks, l.lock(kind, name, mode, key))
		return err
	}})
	if err != nil {
		return nil, err
	}
	rows, err := l.rows(ctx, xid, tables)
	return append(locks, rows...), err
}

// lock puts one lock into words.
func (l look) lock(kind, name, mode string, key int64) footprint.Lock {
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

// relationMeans says whom a lock on a table stops.
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
func (l look) advisory(key int64) string {
	if key == l.s.admitKey(l.q.Name) {
		return "turn to admit groups"
	}
	return fmt.Sprintf("advisory lock %d, not of dibs", key)
}

// The strengths of row locks, from the weakest, and what holds a row if that
// strength is the first one that another transaction cannot get.
var strengths = []struct{ asked, held, means string }{
	{"key share", "FOR UPDATE", "skipped by claims; changes wait"},
	{"share", "FOR NO KEY UPDATE", "skipped by claims; changes wait"},
	{"no key update", "FOR SHARE", "changes wait"},
	{"update", "FOR KEY SHARE", "shared; skipped by claims under a limit"},
}

// ofSeveral is how PostgreSQL names the mode of one of several holders of a row.
var ofSeveral = map[string]int{"forupd": 0, "upd": 0, "fornokeyupd": 1, "nokeyupd": 1, "sh": 2, "keysh": 3}

// rows counts the rows that are locked, by table and strength.
func (l look) rows(ctx context.Context, xid string, tables []string) ([]footprint.Lock, error) {
	rows := map[string][]string{} // by table, with a strength yet to be found
	counts := map[string][]int{}  // by table and strength
	err := l.s.upkeep.run(ctx, step{sql: l.s.sql.get("locks_rows"), args: []any{xid, tables, l.queues, l.jobs}, row: func(scan func(...any) error) error {
		var table, ctid string
		var mode *string
		err := scan(&table, &ctid, &mode)
		if counts[table] == nil {
			counts[table] = make([]int, len(strengths))
		}
		if mode != nil {
			counts[table][ofSeveral[*mode]]++
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

// strengths finds how strongly rows are locked, by trying what can still be had. The
// text is made here, for a table's name cannot be a parameter.
func (l look) strengths(ctx context.Context, table string, ctids []string, counts []int) error {
	t, err := l.s.side.Begin(ctx)
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
