package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// code expects an error of the server with a code, and returns it.
func code(t *testing.T, conn *pgx.Conn, want, query string) *pgconn.PgError {
	t.Helper()
	_, err := conn.Exec(t.Context(), query)
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != want {
		t.Errorf("%s: got %v, want an error with the code %s", query, err, want)
		return &pgconn.PgError{}
	}
	return e
}

func one[T any](t *testing.T, conn *pgx.Conn, query string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// A worker that waits for a queue that does not exist yet, or that has had no groups, gets the
// first job that the functions enqueue there, with LISTEN and without.
func TestAWaitingWorkerGetsTheFirstJobOfTheFunctions(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for _, pooler := range []bool{false, true} {
		for name, call := range map[string]string{
			"new":         "select dibs.enqueue('q', kind => 'k')",
			"new grouped": "select dibs.enqueue('q', kind => 'k', group_key => 'g')",
			"new later":   "select dibs.enqueue('q', kind => 'k', group_key => 'g', delay => '50 ms')",
			"grouped":     "select dibs.enqueue('q', kind => 'k', group_key => 'g')",
			"later":       "select dibs.enqueue('q', kind => 'k', group_key => 'g', delay => '50 ms')",
			"many":        `select id from dibs.enqueue_many('[{"queue":"q","kind":"k","group":"a"}]')`,
			"replaced":    "select dibs.enqueue('q', kind => 'k', group_key => 'g', unique_key => 'u', if_held => 'replace', run_at => now())",
		} {
			t.Run(fmt.Sprint(name, " pooler ", pooler), func(t *testing.T) {
				t.Parallel()
				s, url := migrated(t, postgres.Options{Pooler: pooler})
				conn := connect(t, url)
				ran := make(chan int64, 10)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				w := &dibs.Worker{Store: s, Queue: "q", Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
				w.HandleRaw("k", func(_ context.Context, j *dibs.RawJob) error { ran <- j.ID; return nil })
				work := func() (end func() error) {
					working, stop := context.WithCancel(ctx)
					ended := make(chan error, 1)
					go func() { ended <- w.Run(working) }()
					return func() error { stop(); return <-ended }
				}
				if !strings.HasPrefix(name, "new") {
					execute(t, conn, "select dibs.enqueue('q', kind => 'k', unique_key => 'u', delay => '1 hour')")
					if _, err := s.Sweep(ctx); err != nil {
						t.Fatal(err)
					}
				}
				end := work()
				id := one[int64](t, conn, call)
				select {
				case got := <-ran:
					if got != id {
						t.Errorf("job %d ran, want %d", got, id)
					}
				case <-ctx.Done():
					t.Error("the job has not run")
				}
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A transaction that stays open after it has enqueued, into a queue that is new to all, makes
// nobody else who enqueues or claims wait.
func TestAnOpenTransactionThatEnqueuedHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	open, other := connect(t, url), connect(t, url)
	execute(t, open, "begin; select dibs.enqueue('q', group_key => 'g', unique_key => 'open')")
	execute(t, other, "set lock_timeout = '5s'")
	for _, call := range []string{
		"dibs.enqueue('q')", "dibs.enqueue('q', group_key => 'g')", "dibs.enqueue('q', unique_key => 'other', unique_for => '1 day')",
		`dibs.enqueue_many('[{"queue":"q","group":"g"},{"queue":"q","unique_key":"third"}]')`,
	} {
		execute(t, other, "select "+call)
	}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k", Group: "g"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ChangeQueue(t.Context(), "q", dibs.QueueChange{GroupLimit: new(100)}.Apply); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 100, Lease: time.Hour})
	if err != nil || len(jobs) != 6 {
		t.Errorf("%d jobs are claimed beside the open transaction, %v; want 6", len(jobs), err)
	}
	execute(t, open, "commit")
	if jobs, err = s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 100, Lease: time.Hour}); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs are claimed after the commit, %v; want 1", len(jobs), err)
	}
	consistent(t, s)
}

// A row in a gate where it does not belong, in a queue with groups, keeps nothing else from being
// done, and is claimed after the next upkeep.
func TestAJobInAWrongGateStopsNobody(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	conn := connect(t, url)
	one[int64](t, conn, "select dibs.enqueue('q', group_key => 'g')")
	id := one[int64](t, conn, "select dibs.enqueue('q')")
	if _, err := conn.Exec(t.Context(), "update dibs.job set gate = 2 where id = $1", id); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the queue is made, the row moves on, and is mended
		if _, err := another(t, url).Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 9, Lease: time.Hour}); err != nil || len(jobs) != 2 {
		t.Errorf("%d jobs are claimed, %v; want both", len(jobs), err)
	}
}

// A queue whose settings were deleted with SQL is made again by a process that has known it.
func TestADeletedQueueIsMadeAgain(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	conn := connect(t, url)
	for range 2 {
		one[int64](t, conn, "select dibs.enqueue('q')")
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Lease: time.Hour}); err != nil || len(jobs) != 1 {
			t.Errorf("%d jobs are claimed, %v; want one", len(jobs), err)
		}
		if _, err := conn.Exec(t.Context(), "delete from dibs.queue"); err != nil {
			t.Fatal(err)
		}
	}
}

// another is another process' store.
func another(t *testing.T, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Until somebody sweeps or claims, the queue has no settings. Operators can change its jobs all the same.
func TestJobsOfAQueueWithoutSettingsCanBeChanged(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	id := one[int64](t, connect(t, url), "select dibs.enqueue('q', repeat('7', 600)::json, group_key => 'g')")
	if j, err := s.Get(t.Context(), id); err != nil || j.GroupLimit != 1 {
		t.Errorf("the job's group has a limit of %d, %v; want the default", j.GroupLimit, err)
	}
	if changed, err := s.Edit(t.Context(), []int64{id}, admin.Edit{Priority: new(7)}); err != nil || len(changed) != 1 {
		t.Errorf("edit changes %v, %v", changed, err)
	}
	if ended, _, err := s.Cancel(t.Context(), []int64{id}); err != nil || len(ended) != 1 {
		t.Errorf("cancel ends %v, %v", ended, err)
	}
	if list, err := s.Queues(t.Context()); err != nil || len(list) != 1 { // an operator who looks has them made
		t.Errorf("the queues are %v, %v; want the new one", list, err)
	}
	j, err := s.Wait(t.Context(), id)
	if err != nil || j.State != dibs.Cancelled || j.Priority != 7 || len(j.Payload) != 600 {
		t.Errorf("the job is %+v, %v; want it cancelled, with priority 7", j, err)
	}
	consistent(t, s)
}

func consistent(t *testing.T, s *postgres.Store) {
	t.Helper()
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("consistency check: %q, %v", found, err)
	}
}

// A role that may execute the functions can enqueue in every way, and do nothing else in the
// schema, as operations.md says.
func TestARoleWithOnlyExecuteEnqueues(t *testing.T) {
	t.Parallel()
	s, address := migrated(t, postgres.Options{})
	if _, err := s.ChangeQueue(t.Context(), "q", dibs.QueueChange{PayloadLimit: new(100_000)}.Apply); err != nil {
		t.Fatal(err)
	}
	_, _, _, _, functions := rolesInDocs(t)
	var grants []string
	for _, line := range strings.Split(functions, "\n") {
		if strings.HasPrefix(line, "grant ") {
			grants = append(grants, strings.ReplaceAll(strings.TrimSuffix(line, ";"), "dibs_sql", "ROLE"))
		}
	}
	conn := connect(t, pgtest.Role(t, address, grants...))
	nobody := connect(t, pgtest.Role(t, address, "grant usage on schema dibs to ROLE"))
	for _, call := range []string{
		"dibs.enqueue('q')", "dibs.enqueue('new', json_build_object('a', repeat('x', 5000)), 'kind', group_key => 'g', max_attempts => 3, metadata => '{}', priority => 1)",
		"dibs.enqueue('q', unique_key => 'u')", "dibs.enqueue('q', unique_key => 'u', unique_for => '1 day')", "dibs.enqueue('q', '2', unique_key => 'u', if_held => 'replace', group_key => 'g')",
		"dibs.enqueue('q', unique_key => 'u', if_held => 'push', delay => '1 hour', delay_limit => '1 day')",
		`dibs.enqueue_many('[{"queue":"q","payload":{"a":1}},{"queue":"p","unique_key":"u","delay":"1h"}]')`,
		"dibs.enqueue('q', after => '{1}', after_end => '{2}')", `dibs.enqueue_many('[{"queue":"q","ref":"r"},{"queue":"q","unique_key":"v","after":["r",1]}]')`,
	} {
		execute(t, conn, "select "+call)
		code(t, nobody, "42501", "select "+call)
	}
	if e := code(t, conn, "22023", "select dibs.enqueue('q', unique_until => 'finished')"); e.ColumnName != "unique_until" || e.Message != "unique_until: needs a unique_key" {
		t.Errorf("the error is %q of %q", e.Message, e.ColumnName)
	}
	for _, query := range strings.Split(one[string](t, connect(t, address), `
		select string_agg(q, ';')
		from (
			select unnest(array['select from dibs.' || relname, 'insert into dibs.' || relname || ' default values', 'delete from dibs.' || relname, 'truncate dibs.' || relname]) as q
			from pg_class where relnamespace = 'dibs'::regnamespace and relkind = 'r'
			union all
			select 'select from dibs.' || relname from pg_class where relnamespace = 'dibs'::regnamespace and relkind = 'v'
			union all
			select format('select dibs.%s(%s)', proname, (select string_agg('null::' || format_type(a, null), ', ') from unnest(proargtypes) a))
			from pg_proc where pronamespace = 'dibs'::regnamespace and proname <> all (array['enqueue', 'enqueue_many'])
			union all
			select unnest(array['create table dibs.mine ()', 'select nextval(''dibs.job_id'')', 'update dibs.queue set paused = true'])
		) x`), ";") {
		code(t, conn, "42501", query)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	consistent(t, s)
}

// Calls work at every isolation level, within savepoints and where errors are caught, and leave
// nothing behind when they are rolled back.
func TestTheFunctionsInTransactions(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	conn, other := connect(t, url), connect(t, url)
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		execute(t, conn, "begin isolation level "+level+"; select 1")
		execute(t, other, "select dibs.enqueue('"+level+"', unique_key => 'seen by others')")
		execute(t, conn, `
			select dibs.enqueue('q', '1');
			savepoint a;
			select dibs.enqueue('q', '2', group_key => 'g', unique_key => 'gone');
			savepoint b;
			select dibs.enqueue_many('[{"queue":"q","unique_key":"x","unique_for":1},{"queue":"new"}]');
			rollback to a;
			savepoint c;
			select dibs.enqueue('q', '3', unique_key => 'gone', group_key => 'h', unique_for => '1 ms');
			release c;
			do $$
			begin
				perform dibs.enqueue('q', '4');
				perform dibs.enqueue('q', '5', priority => -1);
			exception when invalid_parameter_value then
				perform dibs.enqueue('q', '6');
			end
			$$`)
		if level != "read committed" { // the holder cannot be seen, as with a plain insert
			execute(t, conn, "savepoint d")
			code(t, conn, "40001", "select dibs.enqueue('"+level+"', unique_key => 'seen by others')")
			execute(t, conn, "rollback to d")
		}
		execute(t, conn, "commit")
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 100, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var payloads []string
		for _, j := range jobs {
			payloads = append(payloads, string(j.Payload))
			if err := s.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(payloads, " "); got != "1 3 6" {
			t.Errorf("%s: the jobs %q were enqueued, want 1 3 6", level, got)
		}
	}
	consistent(t, s) // the check also passes before a sweep has made all queues
	if stats, err := s.Stats(t.Context()); err != nil || len(stats) != 4 {
		t.Errorf("there are statistics of %v, %v; want 4 queues", stats, err)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if queues, err := s.Queues(t.Context()); err != nil || len(queues) != 4 {
		t.Errorf("there are %v, %v; want 4 queues", queues, err)
	}
	consistent(t, s)
}

// A job's times are from after its transaction has got its number: marks rely on that.
func TestTheFunctionsReadTheClockAfterTheTransactionsNumber(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	conn := connect(t, url)
	for _, call := range []string{
		"select dibs.enqueue('q')", "select dibs.enqueue('q', group_key => 'g')", "select dibs.enqueue('q', unique_key => 'a')",
		"select dibs.enqueue('q', unique_key => 'b', unique_for => '1 hour')", `select id from dibs.enqueue_many('[{"queue":"q"}]')`,
	} {
		const called = "with called as materialized (select clock_timestamp() as at) select x.at, x.id from (select c.at, (CALL) as id from called c offset 0) x"
		execute(t, conn, "begin; select 1")
		var at time.Time
		var id int64
		if err := conn.QueryRow(t.Context(), strings.ReplaceAll(called, "CALL", call)).Scan(&at, &id); err != nil {
			t.Fatal(err)
		}
		execute(t, conn, "commit")
		j, err := s.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if j.CreatedAt.Before(at) || j.RunAt.Before(at) {
			t.Errorf("%s: the job was created at %v and starts at %v, the call came at %v", call, j.CreatedAt, j.RunAt, at)
		}
	}
}

// The commit of each function wakes those who wait for the queue.
func TestTheFunctionsWakeWhoWaits(t *testing.T) {
	b := newBench(t, postgres.Options{})
	other := b.openAnother()
	for _, queue := range []string{"q", "many"} {
		if _, err := b.ChangeQueue(b.ctx, queue, dibs.QueueChange{GroupLimit: new(2)}.Apply); err != nil {
			t.Fatal(err)
		}
		wake, stop := b.Wakeups(queue)
		defer stop()
		b.awaitListening(wake, other, queue)
		conn := connect(t, b.pool.Config().ConnString())
		for _, call := range []string{
			"select dibs.enqueue('q')", "select dibs.enqueue('q', unique_key => 'u', unique_for => '1 hour')",
			"select dibs.enqueue('q', unique_key => 'u', if_held => 'replace', run_at => now())",
			`select dibs.enqueue_many('[{"queue":"many"},{"queue":"q"}]')`,
		} {
			for quiet := false; !quiet; { // wait until earlier notifications have arrived
				select {
				case <-wake:
				case <-time.After(50 * time.Millisecond):
					quiet = true
				}
			}
			if strings.Contains(call, "'"+queue+"'") || strings.Contains(call, `"`+queue+`"`) {
				execute(t, conn, call)
				select {
				case <-wake:
				case <-time.After(30 * time.Second):
					t.Fatalf("%s: nobody who waits for %s was woken", call, queue)
				}
			}
		}
	}
}

// A queue that was deleted with SQL and made again at once has other settings than before, and a
// version that tells.
func TestAQueueMadeAgainHasAnotherVersion(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	conn := connect(t, url)
	for range 2 {
		one[int64](t, conn, "select dibs.enqueue('q')")
	}
	claim := func() int {
		t.Helper()
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs)
	}
	if n := claim(); n != 1 {
		t.Fatalf("%d jobs are claimed", n)
	}
	if _, err := conn.Exec(t.Context(), "delete from dibs.queue; insert into dibs.queue (name, concurrency) values ('q', 1)"); err != nil {
		t.Fatal(err)
	}
	if n := claim(); n != 0 {
		t.Errorf("%d jobs are claimed beside one, though the queue now runs one at a time", n)
	}
}
