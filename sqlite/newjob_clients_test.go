package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// shopScript writes orders with their jobs, each in one transaction. Each third one is rolled
// back by the program, and each fifth by a job that is refused. It checks that what it reads of
// its jobs is of them, whatever other processes enqueue meanwhile.
const shopScript = `
import sqlite3, sys
path, name, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
db = sqlite3.connect(path, timeout=600, isolation_level=None)
for i in range(n):
    db.execute("begin immediate")
    payload = '{"order": "%s-%d"}' % (name, i)
    db.execute("insert into orders (name) values (?)", ("%s-%d" % (name, i),))
    db.execute("insert into dibs_new_job (queue, kind, payload, unique_key) values ('orders', 'order', ?, ?)", (payload, "%s-%d" % (name, i)))
    job, existing = db.execute("select id, existing from dibs_enqueued").fetchone()
    assert existing == 0
    assert db.execute("select payload from dibs_job where id = ?", (job,)).fetchone() == (payload,)
    db.execute("insert into dibs_new_job (queue, payload, unique_key) values ('orders', '0', ?)", ("%s-%d" % (name, i),))
    assert db.execute("select id, existing from dibs_enqueued").fetchone() == (job, 1)
    if i % 3 == 0:
        db.execute("rollback")
    elif i % 5 == 0:
        try:
            db.execute("insert into dibs_new_job (queue, priority) values ('orders', -1)")
            assert False, "it was not refused"
        except sqlite3.IntegrityError as e:
            assert str(e) == "priority: must be 0 to 32767", str(e)
        assert db.execute("select id from dibs_enqueued").fetchone() == (job,)
        db.execute("rollback")
    else:
        db.execute("commit")
`

// kept is how many of n orders the script commits.
func kept(n int) (orders int) {
	for i := range n {
		if i%3 != 0 && i%5 != 0 {
			orders++
		}
	}
	return orders
}

func python(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	needs.Program(t, "python3")
	return exec.CommandContext(t.Context(), "python3", append([]string{"-c", script}, args...)...)
}

// Two programs in Python write orders and jobs at once, while this process claims and enqueues.
// Each order that was committed has its job, and no other has one.
func TestNewJobsOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const each = 60
	path := filepath.Join(t.TempDir(), "shop.db")
	s := openAt(t, path, sqlite.Options{Relaxed: true})
	if _, err := s.DB().ExecContext(t.Context(), "create table orders (name text primary key)"); err != nil {
		t.Fatal(err)
	}
	var programs sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		c := python(t, shopScript, path, name, fmt.Sprint(each))
		programs.Go(func() {
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	ended, end := context.WithCancel(t.Context())
	go func() {
		programs.Wait()
		end()
	}()
	worked := workOrders(t, s, ended)
	var orders, missing int
	err := s.DB().QueryRowContext(t.Context(), `select count(*), count(*) filter (where not exists (
		select 1 from dibs_finished f where f.payload = json_object('order', o.name) or f.payload = '{"order": "' || o.name || '"}')) from orders o`).Scan(&orders, &missing)
	if want := 2 * kept(each); err != nil || orders != want || missing != 0 || worked != want {
		t.Errorf("%d orders, %d without a job, %d jobs worked; want %d, %v", orders, missing, worked, want, err)
	}
}

// workOrders completes jobs of the queue orders, and enqueues some of its own, until the context
// has ended and nothing is left. It returns how many there were.
func workOrders(t *testing.T, s *sqlite.Store, ended context.Context) (worked int) {
	for {
		last := ended.Err() != nil
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "orders", Worker: "w", N: 10, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var outcomes []dibs.Outcome
		for _, j := range jobs {
			if j.Kind != "order" {
				t.Errorf("job %d is of kind %s, with payload %s", j.ID, j.Kind, j.Payload)
			}
			outcomes = append(outcomes, j.Lease().Complete(nil))
		}
		if err := s.Finish(t.Context(), outcomes); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "others", Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
		if worked += len(jobs); last && len(jobs) == 0 {
			return worked
		}
	}
}

// A worker that waits is woken by what a program in another language commits.
func TestNewJobOfAnotherProgramWakes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	for _, columns := range []string{"queue) values ('q'", "queue, group_key) values ('q', 'g'"} {
		wake, stop := s.Wakeups("q")
		if out := shell(t, path, ".timeout 600000\ninsert into dibs_new_job ("+columns+");\n"); out != "" {
			t.Fatal(out)
		}
		<-wake
		stop()
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Lease: time.Minute})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("claimed %v, %v", jobs, err)
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
	}
}

// A table's own trigger enqueues when a row comes or changes. A job that is refused refuses the
// row, whatever the statement says of conflicts.
func TestNewJobInAUsersTrigger(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	openAt(t, path, sqlite.Options{})
	const schema = `
		create table orders (id integer primary key, customer text unique, priority);
		create table log (id integer primary key, orders integer references orders (id) on delete cascade);
		create trigger placed after insert on orders begin
			insert into dibs_new_job (queue, payload, group_key, priority)
			values ('orders', json_object('order', new.id), new.customer, new.priority);
			insert into log (orders) values (new.id);
		end;
		create trigger changed after update on orders begin
			insert into dibs_new_job (queue, payload, unique_key, if_held)
			values ('invoices', json_object('order', new.id), new.id, 'replace');
		end;`
	out := shell(t, path, schema+`
		pragma foreign_keys = on; pragma recursive_triggers = on;
		insert into orders (customer, priority) values ('ann', 5), ('ann two', null);
		select 'rowid', last_insert_rowid();
		insert or replace into orders (id, customer, priority) values (2, 'ann', 6);
		update orders set priority = priority + 1;
		update orders set priority = priority + 1;
		insert or ignore into orders (customer, priority) values ('bad', -1);
		insert or replace into orders (id, customer, priority) values (2, 'bad', 'x');
		insert or fail into orders (customer, priority) values ('good', 1), ('bad', -1);
		begin; insert into orders (customer) values ('rolled back'); rollback;
		begin; insert or rollback into orders (customer, priority) values ('bad', -1); commit;
		select 'orders', group_concat(customer) from orders;
		select 'jobs', group_concat(payload || priority, ' ') from dibs_job;
		select 'enqueued', sum(enqueued), sum(waiting), sum(blocked) from dibs_tally;
		select 'answer', id, existing, replaced, pushed from dibs_enqueued;
	`)
	for _, want := range []string{
		"rowid|2\n", "orders|ann\n", "jobs|" + `{"order":1}5 {"order":2}255 {"order":2}6 {"order":2}255` + "\n", "enqueued|4|3|1\n", "answer|4|1|1|0\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it did not say %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "priority: must be 0 to 32767"); n != 4 {
		t.Errorf("%d refusals, want 4:\n%s", n, out)
	}
}

// A connection that trusts no schema can enqueue, as the view's functions are harmless.
func TestNewJobWithoutTrust(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{Prefix: "my_"})
	conn, err := s.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the pool takes it back
	for _, text := range []string{
		"pragma trusted_schema = off",
		"insert into my_new_job (queue, payload, group_key, unique_key, metadata, run_at) values ('q', '[]', 'é', 'u', '{}', '2026-01-01')",
		"pragma trusted_schema = on",
	} {
		if _, err := conn.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	var invalid *dibs.InvalidError
	if _, err := conn.ExecContext(t.Context(), "insert into my_new_job (queue) values ('://')"); !errors.As(viewError(err), &invalid) || invalid.Field != "queue" {
		t.Errorf("got %v", err)
	}
}
