package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgserver"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// patient is a store whose Diagnose has no thresholds: it reports at once what usually must have
// lasted for a time, and reports the first of what usually must exceed a limit.
func patient(t *testing.T, address string) *Store {
	t.Helper()
	if err := Migrate(t.Context(), address, Options{}); err != nil {
		t.Fatal(err)
	}
	return impatient(openedFor(t, address, Options{}, nil))
}

func impatient(s *Store) *Store {
	soon := strings.NewReplacer("'1 minute'", "'0'", "'5 minutes'", "'0'", "'10 minutes'", "'0'", "'30 seconds'", "'0'", "'5 seconds'", "'0'", "'2 seconds'", "'0'",
		"67108864", "0", "100000", "100", "1000000", "-1", "500000000", "0", "greatest((2 ", "greatest((0 ")
	for _, name := range []string{"diagnose", "diagnose_sessions", "diagnose_locks", "diagnose_rows", "diagnose_turns", "diagnose_horizon", "diagnose_tables", "diagnose_server"} {
		s.sql.text[name] = soon.Replace(s.sql.get(name))
	}
	return s
}

// found returns the facts of a name, and checks that each statement could be run.
func found(t *testing.T, s *Store, name string) []admin.Fact {
	t.Helper()
	r, err := s.Diagnose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, skipped := range r.Skipped {
		t.Errorf("%s: %v", skipped.Part, skipped.Err)
	}
	return slices.DeleteFunc(r.Facts, func(f admin.Fact) bool { return f.Name != name })
}

// expectFact checks that there is one fact of that name, which test accepts.
func expectFact(t *testing.T, s *Store, name string, test func(f admin.Fact) bool) {
	t.Helper()
	if facts := found(t, s, name); !slices.ContainsFunc(facts, test) {
		t.Errorf("Diagnose reports %q as %+v", name, facts)
	}
}

func connected(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // the test's database is dropped afterwards
	return c
}

func run(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// runAside runs a statement that waits, until the test ends.
func runAside(t *testing.T, c *pgx.Conn, statement string) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Exec(t.Context(), statement)
	}()
	t.Cleanup(func() { <-ended }) // the statement ends before its connection is closed
}

// A database in which nothing is wrong has no facts, and every part was looked at.
func TestDiagnoseReportsNothingOfAHealthyDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t) // in other databases of the shared server something may be wrong
	if err := Migrate(t.Context(), server.URL(), Options{}); err != nil {
		t.Fatal(err)
	}
	s := openedFor(t, server.URL(), Options{}, nil)
	if _, err := s.Enqueue(t.Context(), jobsOf("q", "g", 3)); err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	r, err := s.Diagnose(t.Context())
	if err != nil || len(r.Facts)+len(r.Skipped) > 0 || len(r.Looked) != 9 {
		t.Errorf("Diagnose reports %+v, %v", r, err)
	}
	if r.Now.Before(before.Add(-time.Second)) || r.Now.After(time.Now().Add(time.Second)) {
		t.Errorf("the database's clock shows %v", r.Now)
	}
}

func TestDiagnoseFindsLongTransactions(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, idle, busy := patient(t, address), connected(t, address), connected(t, address)
	run(t, idle, "set application_name = 'for''gotten \x1b[31m\u202e'", "begin", "select from dibs.job")
	run(t, busy, "begin isolation level repeatable read", "select from dibs.job")
	runAside(t, busy, "select pg_sleep(60)")
	expectFact(t, s, "idle_transaction", func(f admin.Fact) bool {
		return f.ID == int64(idle.PgConn().PID()) && strings.HasPrefix(f.About, "for'gotten") && strings.Contains(f.Text, "select from dibs.job")
	})
	for !slices.ContainsFunc(found(t, s, "long_transaction"), func(f admin.Fact) bool {
		return f.ID == int64(busy.PgConn().PID()) && strings.Contains(f.Text, "pg_sleep")
	}) {
		if t.Context().Err() != nil {
			t.Fatal("the busy transaction is not found")
		}
	}
	run(t, idle, "rollback")
	if facts := found(t, s, "idle_transaction"); len(facts) > 0 {
		t.Errorf("after its end the transaction is still reported: %+v", facts)
	}
}

// Every role can hold the locks by which workers take turns. Diagnose names a process that holds one for long.
func TestDiagnoseFindsWhoKeepsATurn(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s := patient(t, address)
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "mail", Kind: "k", Group: "g"}}); err != nil {
		t.Fatal(err)
	}
	if facts := found(t, s, "turn"); len(facts) != 0 {
		t.Errorf("nobody has a turn, and Diagnose reports %+v", facts)
	}
	holder := connected(t, address)
	for key, about := range map[int64]string{
		s.admitKey("mail"):                          "the groups of queue mail",
		lockKey(s.o.schema(), "sweep", "retention"): "the upkeep retention",
	} {
		if _, err := holder.Exec(t.Context(), "select pg_advisory_lock($1)", key); err != nil {
			t.Fatal(err)
		}
		expectFact(t, s, "turn", func(f admin.Fact) bool {
			return f.About == about && f.ID == int64(holder.PgConn().PID()) && strings.Contains(f.Text, "pg_advisory_lock")
		})
	}
}

// Diagnose says who holds up whom, whatever lock it is, and waits for none itself.
// Workers pass over locked rows, so nobody is seen to wait for them; several may hold one row.
func TestDiagnoseFindsWhoHoldsRows(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, one, other := patient(t, address), connected(t, address), connected(t, address)
	if _, err := s.SetSchedule(t.Context(), dibs.Schedule{Name: "nightly", Spec: "@daily", Queue: "q", Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	run(t, one, "update dibs.schedule set next_at = now() - interval '1 hour'")
	by := func(about string, c *pgx.Conn) func(admin.Fact) bool {
		return func(f admin.Fact) bool {
			return f.About == about && f.ID == int64(c.PgConn().PID()) && strings.Contains(f.Text, "idle in transaction\nselect from dibs.")
		}
	}
	run(t, one, "begin", "select from dibs.schedule for share")
	expectFact(t, s, "schedule_lock", by("nightly", one))
	run(t, other, "begin", "select from dibs.schedule for share") // two transactions share the row lock now, so the row has the number of a multixact
	expectFact(t, s, "row_lock", by("schedule", one))
	expectFact(t, s, "row_lock", by("schedule", other))
	run(t, other, "rollback", "begin", "select from dibs.turn for update")
	expectFact(t, s, "row_lock", by("turn", other))
	run(t, one, "rollback")
	run(t, other, "rollback")
	for _, name := range []string{"schedule_lock", "row_lock"} {
		if facts := found(t, s, name); len(facts) > 0 {
			t.Errorf("Diagnose reports %+v", facts)
		}
	}
}

func TestDiagnoseFindsWhoHoldsUpOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ held, awaited, table string }{
		"a row":         {"update dibs.queue set paused = false", "update dibs.queue set paused = true", "queue"},
		"a whole table": {"lock table dibs.job in access exclusive mode", "select from dibs.job", "job"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := pgtest.URL(t)
			s, holder, waiting := patient(t, address), connected(t, address), connected(t, address)
			if _, err := s.Enqueue(t.Context(), jobsOf("q", "", 1)); err != nil {
				t.Fatal(err)
			}
			run(t, holder, "begin", c.held)
			runAside(t, waiting, c.awaited)
			for {
				r, err := s.Diagnose(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(r.Facts, func(f admin.Fact) bool {
					return f.Name == "lock" && f.About == c.table && f.ID == int64(holder.PgConn().PID()) && f.N == 1 && f.Of == int64(waiting.PgConn().PID())
				}) {
					break
				}
			}
			run(t, holder, "rollback")
		})
	}
}

func TestDiagnoseFindsWhatDiffersFromTheSchema(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, c := patient(t, address), connected(t, address)
	run(t, c,
		"drop index dibs.job_blocked", "create index \"my index\" on dibs.job (worker)", "alter table dibs.queue drop constraint queue_lease_is_100ms_to_24h",
		"drop view dibs.ended_job", "alter table dibs.job add constraint mine check (attempt < 1000) not valid", "alter table dibs.turn set unlogged",
		"alter table dibs.rate enable row level security", "insert into dibs.migration values (99, 1)",
		"alter table dibs.finished set (autovacuum_enabled = off)", "alter table dibs.job reset (fillfactor, autovacuum_vacuum_threshold)")
	for name, want := range map[string][]admin.Fact{
		"missing":        {{About: "job_blocked", Text: "index"}, {About: "queue_lease_is_100ms_to_24h", Text: "constraint"}, {About: "ended_job", Text: "view"}},
		"invalid":        {{About: "mine", Text: "constraint"}},
		"added_index":    {{About: "my index", Text: "job"}},
		"unlogged":       {{About: "turn"}},
		"policies":       {{About: "rate"}},
		"newer_schema":   {{N: 99, Of: int64(len(migrations()))}},
		"autovacuum_off": {{About: "finished", Text: "off"}},
		"table_settings": {{About: "job", Text: "autovacuum_vacuum_threshold=20000, fillfactor=50"}},
	} {
		got := found(t, s, name)
		for _, w := range want {
			w.Name = name
			if !slices.Contains(got, w) {
				t.Errorf("Diagnose reports %q as %+v, want %+v", name, got, w)
			}
		}
		if len(got) != len(want) {
			t.Errorf("Diagnose reports %q as %+v, %d are wrong", name, got, len(want))
		}
	}
}

func TestDiagnoseFindsDeadRowsAndEmptyPages(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, c := patient(t, address), connected(t, address)
	run(t, c, "alter table dibs.tally set (autovacuum_enabled = off)", "insert into dibs.tally (queue) select 'q' from generate_series(1, 5000)", "delete from dibs.tally")
	for len(found(t, s, "dead_rows")) == 0 { // the server gathers figures with a delay
		if _, err := c.Exec(t.Context(), "select pg_stat_clear_snapshot()"); err != nil {
			t.Fatal(err)
		}
	}
	expectFact(t, s, "dead_rows", func(f admin.Fact) bool { return f.About == "tally" && f.N == 5000 && f.Age == 0 })
	expectFact(t, s, "bloat", func(f admin.Fact) bool { return f.About == "tally" && f.N > 100_000 })
}

func TestDiagnoseFindsSettingsThatHurt(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	patient(t, address)
	other := openedFor(t, address, Options{}, nil)
	hurt := pgtest.Role(t, address, append(slices.Clone(pgtest.Grants), "alter role ROLE set statement_timeout = '1s'", "alter role ROLE set synchronous_commit = off")...)
	s := impatient(openedFor(t, hurt, Options{}, nil))
	expectFact(t, s, "setting", func(f admin.Fact) bool { return f.About == "statement_timeout" && f.N == 1000 })
	expectFact(t, s, "setting", func(f admin.Fact) bool { return f.About == "synchronous_commit" && f.Text == "off" })
	role, _ := pgx.ParseConfig(hurt)
	expectFact(t, other, "role_setting", func(f admin.Fact) bool { return f.About == role.User && f.Text == "statement_timeout=1s" })
	expectFact(t, s, "hidden_sessions", func(f admin.Fact) bool { return f.N > 0 })
	expectFact(t, s, "wraparound", func(f admin.Fact) bool { return f.Of > 0 })
}

// A role that lacks a right is told so for that part, and all others are looked at.
func TestDiagnoseSkipsWhatTheRoleMayNotSee(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	patient(t, address)
	s := openedFor(t, pgtest.Role(t, address, "grant usage on schema dibs to ROLE", "grant select on dibs.migration to ROLE"), Options{}, nil)
	r, err := s.Diagnose(t.Context())
	var skipped []string
	for _, part := range r.Skipped {
		if skipped = append(skipped, part.Part); !errors.Is(part.Err, dibs.ErrDenied) {
			t.Errorf("%s is skipped because of %v", part.Part, part.Err)
		}
	}
	if err != nil || !slices.Equal(skipped, []string{"jobs and upkeep", "rows"}) || len(r.Looked) != 7 {
		t.Errorf("Diagnose reports %+v, %v", r, err)
	}
}

// Diagnose reports what concerns all databases of a server; the test has a server of its own.
func TestDiagnoseFindsWhatHoldsUpAServer(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	c := connected(t, server.URL())
	run(t, c, "alter system set max_prepared_transactions = 3", "alter system set max_connections = 20", "alter system set archive_mode = on", "alter system set archive_command = 'false'", "alter system set fsync = off")
	server.Restart(pgserver.Fast)
	s, c := patient(t, server.URL()), connected(t, server.URL())
	run(t, c, "select pg_create_physical_replication_slot('forgotten', true)", "begin", "insert into dibs.turn values ('x')", "prepare transaction 'it''s'", "select pg_switch_wal()")
	expectFact(t, s, "slot", func(f admin.Fact) bool { return f.About == "forgotten" && f.Text == "inactive" })
	expectFact(t, s, "prepared", func(f admin.Fact) bool { return f.About == "it's" && f.N > 0 })
	expectFact(t, s, "setting", func(f admin.Fact) bool { return f.About == "fsync" && f.Text == "off" })
	for range 12 {
		connected(t, server.URL())
	}
	expectFact(t, s, "connections", func(f admin.Fact) bool { return f.N >= 14 && f.Of == 17 })
	for len(found(t, s, "archiver")) == 0 { // wait for the archiver's first try
		if _, err := c.Exec(t.Context(), "select pg_stat_clear_snapshot()"); err != nil {
			t.Fatal(err)
		}
	}
	run(t, c, "rollback prepared 'it''s'", "alter system set synchronous_standby_names = 'nobody'", "select pg_reload_conf()")
	waiting := connected(t, server.URL())
	runAside(t, waiting, "insert into dibs.turn values ('y')")
	for len(found(t, s, "standby_wait")) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the commit that waits is not found")
		}
	}
}

// What the migrations have made is read from them: each object is one that a fresh schema has.
func TestWhatTheMigrationsHaveMadeIsKnown(t *testing.T) {
	t.Parallel()
	s := patient(t, pgtest.URL(t))
	made := made()
	counts := map[string]int{}
	for _, kind := range made.kinds {
		counts[kind]++
	}
	const question = `select
		(select count(*) from pg_class where relnamespace = 'dibs'::regnamespace and relkind = 'i'),
		(select count(*) from pg_class where relnamespace = 'dibs'::regnamespace and relkind = 'v'),
		(select count(distinct proname) from pg_proc where pronamespace = 'dibs'::regnamespace),
		(select count(*) from pg_constraint where connamespace = 'dibs'::regnamespace and contype = 'c'),
		(select sum(cardinality(reloptions)) from pg_class where relnamespace = 'dibs'::regnamespace)`
	var indexes, views, functions, constraints, settings int
	if err := s.pool.QueryRow(t.Context(), qualify.Text(question)).Scan(&indexes, &views, &functions, &constraints, &settings); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"index": indexes, "view": views, "function": functions, "constraint": constraints}
	if fmt.Sprint(counts) != fmt.Sprint(want) || len(made.settings) != settings {
		t.Errorf("the migrations seem to make %v and %d settings, they make %v and %d", counts, len(made.settings), want, settings)
	}
}

func TestDiagnoseRefusesBadArguments(t *testing.T) {
	t.Parallel()
	var none *Store
	if _, err := none.Diagnose(t.Context()); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("without a store: %v", err)
	}
	s := patient(t, pgtest.URL(t))
	var missing context.Context
	if _, err := s.Diagnose(missing); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("without a context: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Diagnose(t.Context()); !errors.Is(err, dibs.ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}

// A time that SQL by hand has left, and that no constraint refuses, keeps nothing else from being found.
func TestDiagnoseBearsTimesThatCannotBeRight(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	s, c := openedFor(t, url, Options{}, nil), connected(t, url)
	if _, err := s.Enqueue(t.Context(), jobsOf("q", "", 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	run(t, c, "insert into dibs.finished (id, state, finished_at, run_at, created_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload) select 100, 'dead', now(), now(), now(), 1, 0, 1, 1, false, 'q', 'k', '1'")
	for _, at := range []string{"infinity", "-infinity", "4000-01-01 BC"} {
		run(t, c, "update dibs.job set claimed_at = '"+at+"', created_at = '"+at+"', cancel_requested = true where token is not null",
			"update dibs.claim set check_at = '"+at+"'",
			"insert into dibs.unique_window values ('q', '"+at+"', '"+at+"', null)")
		r, err := s.Diagnose(t.Context())
		if err != nil || !slices.ContainsFunc(r.Facts, func(f admin.Fact) bool { return f.Name == "dead" && f.About == "q" }) {
			t.Errorf("with the time %s, Diagnose reports %+v, %v", at, r, err)
		}
	}
}

func TestDiagnoseOfATableRefusesBadArguments(t *testing.T) {
	t.Parallel()
	if _, err := DiagnoseTable(t.Context(), nil, "public", "t"); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("without a database: %v", err)
	}
	db, err := sql.Open("pgx", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var missing context.Context
	if _, err := DiagnoseTable(missing, db, "public", "t"); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("without a context: %v", err)
	}
	r, err := DiagnoseTable(t.Context(), db, "no such schema", `no "table"`)
	if err != nil || len(r.Skipped) > 0 || r.Now.IsZero() {
		t.Errorf("of a table that does not exist: %+v, %v", r, err)
	}
}
