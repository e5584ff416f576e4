package postgres

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/diagnosis"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// lookBriefly keeps a look from changing anything, and from lasting or waiting for long.
var lookBriefly = qualify.Text(`select set_config('transaction_read_only', 'on', true), set_config('statement_timeout', '5s', true), set_config('lock_timeout', '1s', true)`)

// Diagnose looks for what keeps jobs from running well: jobs that die or lose their leases, upkeep
// that is late, long transactions, sessions that hold up others, tables that vacuum does not
// keep small, and settings that hurt. Each look is one short statement that only reads; what the
// role may not see, or what takes over 5 s, is skipped. With names of parts, as Looked of a report has
// them, it looks only at these. The command dibs doctor puts it into words.
func (s *Store) Diagnose(ctx context.Context, parts ...string) (diagnosis.Report, error) {
	var r diagnosis.Report
	if err := s.ready(ctx, "diagnose"); err != nil {
		return r, err
	}
	made := made()
	schema := ident(s.o.schema())
	for _, look := range []struct {
		part, statement string
		args            []any
	}{
		{"jobs and upkeep", "diagnose", nil},
		{"the server's settings", "diagnose_server", []any{schema + ".job"}},
		{"sessions", "diagnose_sessions", nil},
		{"locks", "diagnose_locks", []any{schema}},
		{"turns", "diagnose_turns", nil},
		{"rows", "diagnose_rows", nil},
		{"what holds back vacuum", "diagnose_horizon", nil},
		{"dead rows", "diagnose_tables", []any{schema, made.tables, made.settings}},
		{"the schema", "diagnose_schema", []any{schema, made.kinds, made.names, made.version}},
	} {
		if len(parts) > 0 && !slices.Contains(parts, look.part) {
			continue
		}
		facts, err := s.facts(ctx, look.statement, look.args)
		switch {
		case errors.Is(err, dibs.ErrDenied), isLocked(err), isStopped(err) && ctx.Err() == nil:
			r.Skipped = append(r.Skipped, diagnosis.Skipped{Part: look.part, Err: wrap("diagnose", err)})
		case err != nil:
			return r, wrap("diagnose", err)
		default:
			r.Looked = append(r.Looked, look.part)
			r.Facts = append(r.Facts, facts...)
		}
	}
	s.nameTurns(ctx, &r)
	r.Facts = slices.DeleteFunc(r.Facts, func(f diagnosis.Fact) bool {
		if f.Name == "now" {
			r.Now = time.UnixMicro(f.N).UTC()
		}
		return f.Name == "now"
	})
	if s.o.Pooler {
		r.Facts = append(r.Facts, diagnosis.Fact{Name: "pooler"})
	}
	return r, nil
}

// nameTurns says what the locks are for by which processes take turns, and leaves out those of others. N is the key.
func (s *Store) nameTurns(ctx context.Context, r *diagnosis.Report) {
	if !slices.ContainsFunc(r.Facts, func(f diagnosis.Fact) bool { return f.Name == "turn" }) {
		return
	}
	about := map[int64]string{}
	add := func(what string, parts ...string) { about[lockKey(append([]string{s.o.schema()}, parts...)...)] = what }
	add("migrations", "migrate")
	add("repairs", "repair")
	add("wake-ups of other processes", "tell")
	for _, what := range []string{"retention", "tally", "mend"} {
		add("the upkeep "+what, "sweep", what)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	queues, _ := s.Queues(ctx) // if somebody has locked them, that is said already
	for _, q := range queues {
		add("the groups of queue "+q.Name, "admit", q.Name)
	}
	r.Facts = slices.DeleteFunc(r.Facts, func(f diagnosis.Fact) bool { return f.Name == "turn" && about[f.N] == "" })
	for i := range r.Facts {
		if f := &r.Facts[i]; f.Name == "turn" {
			f.About = about[f.N]
		}
	}
}

// facts runs one of the statements of Diagnose, in a transaction of its own.
func (s *Store) facts(ctx context.Context, name string, args []any) ([]diagnosis.Fact, error) {
	t, err := s.beginOn(ctx, s.sidePool)
	if err != nil {
		return nil, err
	}
	defer t.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has only read
	facts, err := s.factsOn(ctx, s.connOn(t), name, args)
	return facts, s.explain(ctx, err)
}

func (s *Store) factsOn(ctx context.Context, c conn, name string, args []any) (facts []diagnosis.Fact, err error) {
	limits := []step{{sql: lookBriefly}}
	if name != "diagnose" { // statements about the catalogs have no plans to keep
		limits = append(limits, step{sql: planFreely})
	}
	// They come first and apart: the server waits for locks already when it parses a statement.
	if err := c.run(ctx, limits...); err != nil {
		return nil, err
	}
	err = c.run(ctx, step{
		sql: s.sql.get(name), args: args,
		begin: func() { facts = nil },
		row: func(scan func(...any) error) error {
			var f diagnosis.Fact
			var age float64
			err := scan(&f.Name, &f.About, &f.ID, &f.N, &f.Of, &age, &f.Text)
			f.Age = us(int64(age))
			facts = append(facts, f)
			return err
		},
	})
	return facts, err
}

// madeByMigrations are the objects that the migrations have made.
type madeByMigrations struct {
	version          int
	kinds, names     []string // of objects
	tables, settings []string // a setting of a table each
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
			objects[[2]string{"index", table[1] + "_pkey"}] = true
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
