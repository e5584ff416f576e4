package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/reads"
)

// lookBriefly makes a transaction read-only, and limits how long it lasts and waits for locks.
var lookBriefly = qualify.Text(`select set_config('transaction_read_only', 'on', true), set_config('statement_timeout', '5s', true), set_config('lock_timeout', '1s', true)`)

// Diagnose looks for what keeps jobs from running well: jobs that die or lose their leases, upkeep
// that is late, what flows wait for, long transactions, sessions that hold up others, tables that vacuum does not
// keep small, and settings that hurt. Each look is one short statement that only reads; what the
// role may not see, or what takes over 5 s, is skipped. With names of parts, as Looked of a report has
// them, it looks only at these. The command dibs doctor puts it into words.
func (s *Store) Diagnose(ctx context.Context, parts ...string) (admin.Diagnosis, error) {
	if err := s.ready(ctx, "diagnose"); err != nil {
		return admin.Diagnosis{}, err
	}
	made, schema := made(), ident(s.o.schema())
	looks := []look{
		{"jobs and upkeep", "diagnose", nil},
		{"the server's settings", "diagnose_server", []any{schema + ".job"}},
		{"sessions", "diagnose_sessions", nil},
		{"locks", "diagnose_locks", []any{schema}},
		{"turns", "diagnose_turns", nil},
		{"rows", "diagnose_rows", nil},
		{"what holds back vacuum", "diagnose_horizon", nil},
		{"dead rows", "diagnose_tables", []any{schema, made.tables, made.settings}},
		{"the schema", "diagnose_schema", []any{schema, made.kinds, made.names, made.version}},
	}
	if len(parts) > 0 {
		looks = slices.DeleteFunc(looks, func(l look) bool { return !slices.Contains(parts, l.part) })
	}
	r, err := lookAt(looks, func(l look) ([]admin.Fact, error) { return s.facts(ctx, l) }, func(err error) bool {
		return errors.Is(err, dibs.ErrDenied) || isLocked(err) || isStopped(err) && ctx.Err() == nil
	})
	if err != nil {
		return r, err
	}
	s.nameTurns(ctx, &r)
	if s.o.Pooler {
		r.Facts = append(r.Facts, admin.Fact{Name: "pooler"})
	}
	return r, nil
}

// DiagnoseTable looks for what keeps work on an adopted table from running well, as [Store.Diagnose] does for dibs' own:
// long transactions, sessions that hold up others at the table, its dead rows, and settings that hurt.
func DiagnoseTable(ctx context.Context, db *sql.DB, schema, table string) (admin.Diagnosis, error) {
	texts, err := load("dibs")
	if err := cmp.Or(checks.Context(ctx), checks.Database(db), err); err != nil {
		return admin.Diagnosis{}, err
	}
	in := ident(schema)
	r, err := lookAt([]look{
		{"the server's settings", "diagnose_server", []any{in + "." + ident(table)}},
		{"sessions", "diagnose_sessions", nil},
		{"locks", "diagnose_locks", []any{in}},
		{"what holds back vacuum", "diagnose_horizon", nil},
		{"dead rows", "diagnose_tables", []any{in, []string{}, []string{}}},
	}, func(l look) ([]admin.Fact, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer tx.Rollback() //nolint:errcheck // it has only read
		return texts.facts(ctx, sqlConn{tx}, l)
	}, func(error) bool { return ctx.Err() == nil })
	r.Facts = slices.DeleteFunc(r.Facts, func(f admin.Fact) bool {
		ofTable := slices.Contains([]string{"lock", "dead_rows", "autovacuum_off", "bloat"}, f.Name)
		return ofTable && f.About != table && f.About != "dibs_adopted"
	})
	return r, err
}

// look is one part of a diagnosis.
type look struct {
	part, statement string
	args            []any
}

// lookAt makes a report of some parts. It leaves out a part that facts cannot look at with an error that may be skipped.
func lookAt(looks []look, facts func(look) ([]admin.Fact, error), maySkip func(error) bool) (r admin.Diagnosis, err error) {
	for _, l := range looks {
		switch facts, err := facts(l); {
		case err == nil:
			r.Looked, r.Facts = append(r.Looked, l.part), append(r.Facts, facts...)
		case maySkip(err):
			r.Skipped = append(r.Skipped, admin.Skipped{Part: l.part, Err: wrap("diagnose", err)})
		default:
			return r, wrap("diagnose", err)
		}
	}
	r.Facts = slices.DeleteFunc(r.Facts, func(f admin.Fact) bool {
		if f.Name == "now" {
			r.Now = time.UnixMicro(f.N).UTC()
		}
		return f.Name == "now"
	})
	return r, nil
}

// nameTurns says of each lock by which processes take turns what it is for. N holds the lock's key. Locks of other
// programs are left out.
func (s *Store) nameTurns(ctx context.Context, r *admin.Diagnosis) {
	if !slices.ContainsFunc(r.Facts, func(f admin.Fact) bool { return f.Name == "turn" }) {
		return
	}
	about := map[int64]string{}
	add := func(what string, parts ...string) { about[lockKey(append([]string{s.o.schema()}, parts...)...)] = what }
	add("migrations", "migrate")
	add("repairs", "repair")
	add("wake-ups of other processes", "tell")
	add("the ends that other jobs wait for", "sweep", "settle")
	for _, what := range []string{"retention", "tally", "mend"} {
		add("the upkeep "+what, "sweep", what)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	queues, _ := s.Queues(ctx) // an error is ignored: if another transaction has locked the queues, another fact says so
	for _, q := range queues {
		add("the groups of queue "+q.Name, "admit", q.Name)
	}
	r.Facts = slices.DeleteFunc(r.Facts, func(f admin.Fact) bool { return f.Name == "turn" && about[f.N] == "" })
	for i := range r.Facts {
		if f := &r.Facts[i]; f.Name == "turn" {
			f.About = about[f.N]
		}
	}
}

// facts looks at one part, in a transaction of its own.
func (s *Store) facts(ctx context.Context, l look) ([]admin.Fact, error) {
	t, err := s.beginOn(ctx, s.sidePool)
	if err != nil {
		return nil, err
	}
	defer t.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has only read
	facts, err := s.sql.facts(ctx, s.connOn(t), l)
	return facts, s.explain(ctx, err)
}

func (s *statements) facts(ctx context.Context, c conn, l look) ([]admin.Fact, error) {
	limits := []step{{sql: lookBriefly}}
	if l.statement != "diagnose" { // statements about the catalogs have no plans to keep
		limits = append(limits, step{sql: planFreely})
	}
	// The limits are sent first, in a round trip of their own: the server waits for a table's lock already when it
	// parses a statement.
	if err := c.run(ctx, limits...); err != nil {
		return nil, err
	}
	var facts []admin.Fact
	look := step{sql: s.get(l.statement), args: l.args, begin: func() { facts = nil }, row: func(scan reads.Scan) error {
		var f admin.Fact
		var age float64
		err := scan(&f.Name, &f.About, &f.ID, &f.N, &f.Of, &age, &f.Text)
		f.Age = us(int64(age))
		facts = append(facts, f)
		return err
	}}
	err := c.run(ctx, look)
	return facts, err
}

// madeByMigrations are the objects that the migrations have made.
type madeByMigrations struct {
	version          int
	kinds, names     []string // the objects that the migrations have made
	tables, settings []string // a table, and a setting that it has, each at the same place
}

var (
	madeObject    = regexp.MustCompile(`(?m)^create (?:unique |or replace )*(index|view|function) (?:concurrently |if not exists )*(?:dibs\.)?([a-z0-9_]+)`)
	madeCheck     = regexp.MustCompile(`\b(constraint) ([a-z0-9_]+) check\b`)
	droppedObject = regexp.MustCompile(`(?m)^\s*(?:alter table dibs\.[a-z_]+ )?drop (index|view|function|constraint) (?:if exists )?(?:dibs\.)?([a-z0-9_]+)`)
	madeTable     = regexp.MustCompile(`(?ms)^create table dibs\.([a-z_]+) \(.*?^\)( with \(.*?^\))?;`)
	madeSetting   = regexp.MustCompile(`([a-z_]+) = ([a-z0-9.]+)`)
)

// made reads what the migrations make, with the names in this package's SQL.
var made = sync.OnceValue(func() (m madeByMigrations) {
	list := migrations()
	m.version = len(list)
	objects := map[[2]string]bool{}
	for _, each := range list {
		text := each.Text
		for _, found := range slices.Concat(madeObject.FindAllStringSubmatch(text, -1), madeCheck.FindAllStringSubmatch(text, -1)) {
			objects[[2]string{found[1], found[2]}] = true
		}
		for _, table := range madeTable.FindAllStringSubmatch(text, -1) {
			if strings.Contains(table[0], "primary key") {
				objects[[2]string{"index", table[1] + "_pkey"}] = true
			}
			for _, set := range madeSetting.FindAllStringSubmatch(table[2], -1) {
				m.tables, m.settings = append(m.tables, table[1]), append(m.settings, set[1]+"="+set[2])
			}
		}
		for _, found := range droppedObject.FindAllStringSubmatch(text, -1) {
			delete(objects, [2]string{found[1], found[2]})
		}
	}
	for o := range objects {
		m.kinds, m.names = append(m.kinds, o[0]), append(m.names, o[1])
	}
	return m
})
