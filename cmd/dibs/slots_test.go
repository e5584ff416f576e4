//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/jackc/pgx/v5"
)

// until repeats the query until its answer is true.
func until(t *testing.T, conn *pgx.Conn, what, sql string, args ...any) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; {
		var so bool
		if err := conn.QueryRow(t.Context(), sql, args...).Scan(&so); err != nil {
			t.Fatal(err)
		}
		if so {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func dial(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the database is dropped in any case
	return conn
}

// Workers wait for a connection instead of giving up, and release theirs for others.
func TestMoreWorkersThanConnections(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	c := &cli{t: t, db: server.URL()}
	if _, err := dial(t, c.db).Exec(t.Context(), "alter system set max_connections = 10"); err != nil {
		t.Fatal(err)
	}
	server.Restart(pgtest.Fast)
	c.ok("migrate")
	const workers = 14
	for i := range workers {
		c.ok("enqueue", fmt.Sprint("q", i), "1")
	}
	look := dial(t, c.db)
	var all []*working
	for i := range workers {
		all = append(all, c.work(fmt.Sprint("q", i), "--shutdown", "1s", "--", "true"))
	}
	until(t, look, "all workers have run their job", "select count(*) = $1 from dibs.finished where state = 'completed'", workers)
	for _, w := range all {
		select {
		case r := <-w.ended:
			t.Errorf("a worker ended with exit code %d: %s", r.code, r.err)
		default:
		}
		w.stop()
	}
}

// documented reads a row of the table of connections in docs/operations.md.
func documented(t *testing.T, process string) (idle, busy int) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| " + regexp.QuoteMeta(process) + " \\| (\\d+) \\| (\\d+)(?:, with `--listen` \\d+)? \\|").FindSubmatch(text)
	if row == nil {
		t.Fatalf("operations.md has no row for %s", process)
	}
	idle, _ = strconv.Atoi(string(row[1])) // digits
	busy, _ = strconv.Atoi(string(row[2]))
	return idle, busy
}

// A worker uses as many connections as docs/operations.md says.
func TestConnectionsOfAWorker(t *testing.T) {
	t.Parallel()
	idle, busy := documented(t, "`dibs work`")
	c := &cli{t: t, db: pgtest.URL(t)}
	c.ok("migrate")
	look := dial(t, c.db)
	const count = "select count(*) from pg_stat_activity where application_name = 'dibs worker one' and datname = current_database()"
	c.db += "&pool_max_conn_idle_time=500ms&pool_health_check_period=100ms"
	if strings.Count(c.db, "?") > 1 {
		t.Fatalf("the server's address has parameters: %s", c.db)
	}
	w := c.work("q", "--name", "one", "--concurrency", "20", "--", "true")
	listening := "select exists (select from pg_stat_activity where application_name = 'dibs worker one' and query ilike 'listen%')"
	until(t, look, "the worker listens", listening)
	until(t, look, "the idle worker gives connections back", "select ("+count+") <= $1", idle)
	c.feed(strings.Repeat("1\n", 400), "enqueue", "q", "--lines")
	for most, left := 0, 1; left > 0; {
		var n int
		if err := look.QueryRow(t.Context(), "select ("+count+"), (select count(*) from dibs.job)").Scan(&n, &left); err != nil {
			t.Fatal(err)
		}
		if n > busy && n > most {
			most = n
			t.Errorf("the busy worker has %d connections, the documentation says %d", n, busy)
		}
	}
	until(t, look, "the worker gives connections back when it is idle again", "select ("+count+") <= $1", idle)
	w.stop()
	c.end(w)
}

// Each command sets its application_name, unless the URL does.
func TestServersAreToldWhoConnects(t *testing.T) {
	t.Parallel()
	c := &cli{t: t, db: pgtest.URL(t)}
	c.ok("migrate")
	if _, err := dial(t, c.db).Exec(t.Context(), `
		create table told (name text);
		create function tell() returns trigger language plpgsql as $$ begin insert into public.told values (current_setting('application_name')); return null; end $$;
		create trigger told after insert on dibs.tally execute function tell()`); err != nil {
		t.Fatal(err)
	}
	c.ok("enqueue", "q", "1")
	plain := c.db
	c.db += "&application_name=mine"
	c.ok("enqueue", "q", "1")
	until(t, dial(t, plain), "both names", "select (select array_agg(distinct name order by name) from told) = array['dibs enqueue', 'mine']")
}
