package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// No statement on an adopted table calls a function or an operator that an attacker has created in a
// schema of the search path, even before pg_catalog. The conditions of these mappings use no such
// operator, since they run as they are written.
func TestNothingPlantedInTheSearchPathIsCalled(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	sent := &pgtest.Sent{Texts: map[string]bool{}}
	db, admin := onPath(t, address, "public", sent), onPath(t, address, "public", nil)
	for _, text := range []string{
		`create extension citext`,
		`create type state as enum ('new', 'busy', 'done', 'dead')`,
		`create domain lane as text`,
	} {
		exec(t, admin, text)
	}
	for _, w := range pathWays() {
		exec(t, admin, w.table)
		w.everyVerb(t, db, admin)
	}
	p := pgtest.Plant(t, address)
	// Commands use no operators, functions or types, and explained statements are sent without "explain", too.
	command := regexp.MustCompile(`^(?:--[^\n]*\n|\s)*(?:begin|commit|rollback|savepoint|release|show|set|explain|create|drop)\b`)
	texts := slices.DeleteFunc(slices.Sorted(maps.Keys(sent.Texts)), command.MatchString)
	for _, text := range texts {
		p.For(text)
	}
	for _, text := range texts {
		meant, err := p.Parsed(text, "pg_catalog")
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := p.Parsed(unqualified.ReplaceAllString(text, "$1"), "pg_catalog"); plain != meant {
			t.Errorf("this needs parentheses where operators meet (%v):\n%s", err, text)
		}
		if planted, err := p.Parsed(text, "planted, pg_catalog"); planted != meant {
			t.Errorf("this means something else where others may plant (%v):\n%s", err, text)
		}
	}
	exec(t, admin, `drop table dibs_adopted`)
	hostile := onPath(t, address, "planted, pg_catalog, public", nil)
	for _, w := range pathWays() {
		w.everyVerb(t, hostile, admin)
	}
	if n := p.Hits(); n > 0 {
		t.Errorf("%d calls of what was planted", n)
	}
	if made := p.Dependents(); len(made) > 0 {
		t.Errorf("these depend on what was planted: %q", made)
	}
}

var unqualified = regexp.MustCompile(`operator\(pg_catalog\.([^)]+)\)|pg_catalog\.`)

func onPath(t *testing.T, address, path string, tracer pgx.QueryTracer) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["search_path"] = path
	config.Tracer = tracer
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// pathWay is a table with its mapping and statements for its rows.
type pathWay struct {
	mapping.Mapping
	table string
	rows  string // statement that inserts at least six available rows
	late  string // statement that lets all leases end
}

// pathColumns are the columns of tables whose rows hold their claims.
const pathColumns = ` (id bigint generated always as identity primary key, lane lane not null default 'a', kind varchar(20) default 'k', priority int default 0,
	created timestamptz(3) default now(), due timestamptz, mark uuid, who text, began timestamptz, lease_end timestamptz(0), attempts int,
	level state not null default 'new', info jsonb, ended timestamptz, result json, error varchar(40), grp text)`

func pathWays() []pathWay {
	inRow := mapping.Mapping{
		Table: "in_row", ID: mapping.Columns{"id"}, Order: mapping.Columns{"priority desc", "created"},
		Where: "lane operator(pg_catalog.=) 'a'", Kind: "kind",
		Rows:        mapping.Rows{Unfinished: "ended is null", Available: "mark is null", NotBefore: "due"},
		Payload:     mapping.Payload{Columns: mapping.Columns{"kind", "info"}},
		Concurrency: 100, MaxAttempts: 9, Lease: time.Minute,
		Claim:     mapping.Claim{Token: "mark", LockedBy: "who", StartedAt: "began", Timeout: "lease_end", Attempts: "attempts", Set: mapping.Set{"level": "busy"}},
		Completed: mapping.Change{Set: mapping.Set{"ended": "$now", "result": "$result", "level": "done"}},
		Dead:      &mapping.Change{Set: mapping.Set{"ended": "$now", "error": "$error", "level": "dead"}},
		Cancelled: &mapping.Change{Delete: true},
		PutBack:   mapping.Change{Set: mapping.Set{"error": "$error", "level": "new"}},
	}
	grouped := inRow
	grouped.Table, grouped.Group = "in_groups", mapping.Group{Column: "grp", Limit: 5}
	side := mapping.Mapping{
		Table: "beside", ID: mapping.Columns{"id", "at"}, SideTable: true, Lease: time.Minute, MaxAttempts: 9, Concurrency: 100,
		Rows:      mapping.Rows{Unfinished: "done is not true"},
		Group:     mapping.Group{Column: "grp", Limit: 5},
		Completed: mapping.Change{Set: mapping.Set{"done": true}},
	}
	both := side
	both.Table, both.Times, both.Available, both.Running = "twice", mapping.TimesUnixMS, "began is null", "began is not null"
	both.ID, both.Group, both.Claim, both.NotBefore = mapping.Columns{"id", "part"}, mapping.Group{}, mapping.Claim{StartedAt: "began", LockedBy: "who"}, "due"
	values := mapping.Mapping{
		Table: "by_values", ID: mapping.Columns{"id", "lane"}, Lease: time.Minute, Times: mapping.TimesUTC,
		Rows:      mapping.Rows{Unfinished: "ended is null", Available: "began is null", NotBefore: "due"},
		Claim:     mapping.Claim{LockedBy: "who", StartedAt: "began"},
		Completed: mapping.Change{Set: mapping.Set{"ended": "$now", "result": "$result"}},
		PutBack:   mapping.Change{Set: mapping.Set{"due": "$run_at"}},
		Payload:   mapping.Payload{Columns: mapping.Columns{"result"}, JSON: true},
	}
	alone := mapping.Mapping{
		Table: "alone", ID: mapping.Columns{"id"}, Rows: mapping.Rows{Unfinished: "done is not true", NotBefore: "due"}, Times: mapping.TimesLocal,
		Completed: mapping.Change{Delete: true},
	}
	return []pathWay{
		{
			inRow, `create table in_row` + pathColumns + `; create index on in_row (ended)`,
			`insert into in_row (info) select '{}' from generate_series(1, 12)`,
			`update in_row set began = now() - interval '1 hour', lease_end = now() - interval '1 hour' where mark is not null`,
		},
		{
			grouped, `create table in_groups` + pathColumns,
			`insert into in_groups (grp) select case when n > 3 then 'g' || n / 4 end from generate_series(1, 12) n`,
			`update in_groups set lease_end = now() - interval '1 hour' where mark is not null`,
		},
		{
			side, `create table beside (id uuid default gen_random_uuid(), at timestamptz default now(), done bool, grp text, primary key (id, at))`,
			`insert into beside (grp) select case when n > 3 then 'g' || n / 4 end from generate_series(1, 12) n`,
			`update dibs_adopted set lease_until = 1 where token is not null`,
		},
		{
			both, `create table twice (id int, part int default 1, done bool, began bigint, due bigint, who text, primary key (id, part)) partition by list (part);
			create table twice_1 partition of twice for values in (1)`,
			`insert into twice (id) select n + (select count(*) from twice) from generate_series(1, 12) n`,
			`update dibs_adopted set lease_until = 1 where token is not null; update twice set began = 1000000000000 where began is not null`,
		},
		{
			values, `create table by_values (id citext, lane varchar(8) default 'a', began timestamp, due timestamp, ended timestamp, who citext, result text,
			primary key (id, lane)) partition by list (lane); create table by_values_a partition of by_values for values in ('a')`,
			`insert into by_values (id, result) select 'Row ' || n + (select count(*) from by_values), '{}' from generate_series(1, 12) n`,
			`update by_values set began = '2020-01-01' where began is not null`,
		},
		{
			alone, `create table alone (id smallint primary key, done bool, due timestamp)`,
			`insert into alone (id) select n + (select coalesce(max(id), 0) from alone) from generate_series(1, 12) n`, "",
		},
	}
}

// everyVerb calls all functions that take a mapping, and the methods of the store.
func (w pathWay) everyVerb(t *testing.T, db, admin *sql.DB) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", w.Table, err)
		}
	}
	exec(t, admin, w.rows)
	for _, f := range findings(t, db, w.Mapping) {
		if f.Severity == advice.SeverityError {
			t.Errorf("%s: %+v", w.Table, f)
		}
	}
	_, err := advice.SQL(ctx, db, w.Mapping, 3)
	must(err)
	_, err = advice.Try(ctx, db, w.Mapping, 3)
	must(err)
	_, _, err = advice.Propose(ctx, db, w.Table)
	must(err)
	_, _, err = advice.Propose(ctx, db, "no_such_table")
	if err == nil {
		t.Error("a table that is not there was found")
	}
	_, err = advice.Tables(ctx, db, "")
	must(err)
	w.storeVerbs(t, opened(t, db, w.Mapping), db, admin)
}

// storeVerbs calls the methods of the store.
func (w pathWay) storeVerbs(t *testing.T, s *adopt.Store, db, admin *sql.DB) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", w.Table, err)
		}
	}
	claim := dibs.ClaimRequest{Queue: s.Queue(), Worker: "w", N: 8}
	tx, err := db.BeginTx(ctx, nil)
	must(err)
	inTx := s.SQLTx(tx)
	jobs, err := inTx.Claim(ctx, claim)
	must(err)
	must(inTx.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Complete([]byte("{}"))}))
	must(tx.Commit())
	if w.late == "" { // these claims last as long as a transaction
		return
	}
	late := func() {
		t.Helper()
		exec(t, admin, w.late)
		swept, err := s.Sweep(ctx)
		must(err)
		if swept.Expired == 0 {
			t.Errorf("%s: no lease was over", w.Table)
		}
	}
	w.look(t, s)
	late()
	jobs, err = s.Claim(ctx, claim)
	must(err)
	if len(jobs) < 6 {
		t.Fatalf("%s: claimed %d rows", w.Table, len(jobs))
	}
	_, err = s.Get(ctx, jobs[0].ID)
	must(err)
	w.look(t, s)
	_, err = s.Extend(ctx, []dibs.Lease{jobs[0].Lease(), jobs[1].Lease()}, time.Minute)
	must(err)
	must(s.Finish(ctx, []dibs.Outcome{
		jobs[0].Lease().Complete([]byte("{}")), jobs[1].Lease().RetryAfter(0, "no"), jobs[2].Lease().Die("no"),
		jobs[3].Lease().Release(), jobs[4].Lease().Snooze(time.Minute),
	}))
	_, err = s.Resume(ctx, dibs.ClaimRequest{Queue: s.Queue(), Worker: "w"})
	must(err)
	if dead := w.look(t, s); w.SideTable && w.Dead == nil {
		if len(dead) == 0 {
			t.Errorf("%s: no row is dead", w.Table)
		}
		_, err = s.Requeue(ctx, dead)
		must(err)
	}
	late()
	_, err = s.Sweep(ctx)
	must(err)
}

// look calls the methods of the store that only read.
func (w pathWay) look(t *testing.T, s *adopt.Store) (dead []int64) {
	t.Helper()
	_, failed := s.Stats(t.Context())
	for _, find := range []func(context.Context, *adopt.Store) ([]advice.Finding, error){advice.Stuck, advice.Ended} {
		_, err := find(t.Context(), s)
		failed = errors.Join(failed, err)
	}
	_, err := s.List(t.Context(), admin.Filter{Limit: 100})
	if failed = errors.Join(failed, err); w.SideTable {
		var page admin.Page
		page, err = s.List(t.Context(), admin.Filter{State: dibs.Dead, Limit: 100})
		for _, j := range page.Jobs {
			dead = append(dead, j.ID)
		}
	}
	if failed = errors.Join(failed, err); failed != nil {
		t.Fatalf("%s: %v", w.Table, failed)
	}
	return dead
}
