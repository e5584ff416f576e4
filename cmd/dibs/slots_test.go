//go:build unix

package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Workers wait for a connection instead of giving up, and release theirs for others.
func TestMoreWorkersThanConnections(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	c := newCLI(t, server.URL())
	if _, err := clitest.Dial(t, c.DB).Exec(t.Context(), "alter system set max_connections = 10"); err != nil {
		t.Fatal(err)
	}
	server.Restart(pgtest.Fast)
	c.OK("migrate")
	const workers = 14
	for i := range workers {
		c.OK("enqueue", fmt.Sprint("q", i), "1")
	}
	look := clitest.Dial(t, c.DB)
	var all []*clitest.Working
	for i := range workers {
		all = append(all, c.Work(fmt.Sprint("q", i), "--shutdown", "1s", "--", "true"))
	}
	clitest.Until(t, look, "all workers have run their job", "select count(*) = $1 from dibs.finished where state = 'completed'", workers)
	for _, w := range all {
		select {
		case r := <-w.Ended:
			t.Errorf("a worker ended with exit code %d: %s", r.Code, r.Err)
		default:
		}
		w.Stop()
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
	c := newCLI(t, pgtest.URL(t))
	c.OK("migrate")
	look := clitest.Dial(t, c.DB)
	const count = "select count(*) from pg_stat_activity where application_name = 'dibs worker one' and datname = current_database()"
	c.DB += "&pool_max_conn_idle_time=500ms&pool_health_check_period=100ms"
	if strings.Count(c.DB, "?") > 1 {
		t.Fatalf("the server's address has parameters: %s", c.DB)
	}
	w := c.Work("q", "--name", "one", "--concurrency", "20", "--", "true")
	listening := "select exists (select from pg_stat_activity where application_name = 'dibs worker one' and query ilike 'listen%')"
	clitest.Until(t, look, "the worker listens", listening)
	clitest.Until(t, look, "the idle worker gives connections back", "select ("+count+") <= $1", idle)
	c.Feed(strings.Repeat("1\n", 400), "enqueue", "q", "--lines")
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
	clitest.Until(t, look, "the worker gives connections back when it is idle again", "select ("+count+") <= $1", idle)
	w.Stop()
	c.End(w)
}

// Each command sets its application_name, unless the URL does.
func TestServersAreToldWhoConnects(t *testing.T) {
	t.Parallel()
	c := newCLI(t, pgtest.URL(t))
	c.OK("migrate")
	if _, err := clitest.Dial(t, c.DB).Exec(t.Context(), `
		create table told (name text);
		create function tell() returns trigger language plpgsql as $$ begin insert into public.told values (current_setting('application_name')); return null; end $$;
		create trigger told after insert on dibs.tally execute function tell()`); err != nil {
		t.Fatal(err)
	}
	c.OK("enqueue", "q", "1")
	plain := c.DB
	c.DB += "&application_name=mine"
	c.OK("enqueue", "q", "1")
	clitest.Until(t, clitest.Dial(t, plain), "both names", "select (select array_agg(distinct name order by name) from told) = array['dibs enqueue', 'mine']")
}
