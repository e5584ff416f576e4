package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// life is a number of jobs that are enqueued, claimed and completed, each step in one call.
type life struct {
	name    string
	jobs    int
	group   string
	payload int // bytes, which do not compress
	log     int // bytes of log that a job may take; it takes 2 to 4 % less
}

var lives = []life{
	{name: "one job", jobs: 1, payload: 100, log: 2150},
	{name: "one job of a group", jobs: 1, group: "g", payload: 100, log: 3400},
	{name: "one job with a payload of 10 kB", jobs: 1, payload: 10_000, log: 13_000},
	{name: "100 jobs", jobs: 100, payload: 100, log: 1250},
	{name: "1000 jobs", jobs: 1000, payload: 100, log: 1200},
	{name: "1000 jobs with payloads of 1 kB", jobs: 1000, payload: 1000, log: 2270},
}

func (l life) queue() string { return strings.ReplaceAll(l.name, " ", "-") }

// calls are the calls of a life, on a store as callers have it or within a transaction.
type calls struct {
	enqueue func([]dibs.NewJob) error
	claim   func(dibs.ClaimRequest) ([]*dibs.RawJob, error)
	finish  func([]dibs.Outcome) error
}

func callsOf(ctx context.Context, s *Store) calls {
	return calls{
		func(jobs []dibs.NewJob) error { _, err := s.Enqueue(ctx, jobs); return err },
		func(r dibs.ClaimRequest) ([]*dibs.RawJob, error) { return s.Claim(ctx, r) },
		func(outcomes []dibs.Outcome) error { return s.Finish(ctx, outcomes) },
	}
}

func callsWithin(ctx context.Context, s *Store) calls {
	return calls{
		func(jobs []dibs.NewJob) error { _, _, err := s.enqueue(ctx, jobs, s.db); return err },
		func(r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
			return s.claimUnderSettings(ctx, r, claimer{conn: s.db})
		},
		func(outcomes []dibs.Outcome) error { return s.finish(ctx, outcomes, finisher{conn: s.db}) },
	}
}

// run lets the jobs live; after is called after each step.
func (l life) run(t *testing.T, c calls, after func(step string)) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	random := make([]byte, l.payload/2)
	rand.Read(random)
	jobs := make([]dibs.NewJob, l.jobs)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: l.queue(), Kind: "k", Group: l.group, Payload: hex.EncodeToString(random)}
	}
	must(c.enqueue(jobs))
	after("enqueue")
	claimed, err := c.claim(dibs.ClaimRequest{Queue: l.queue(), Worker: "w", N: l.jobs})
	must(err)
	after("claim")
	outcomes := make([]dibs.Outcome, len(claimed))
	for i, j := range claimed {
		outcomes[i] = j.Lease().Complete(nil)
	}
	must(c.finish(outcomes))
	after("finish")
	if len(claimed) != l.jobs {
		t.Fatalf("%s: %d were claimed", l.name, len(claimed))
	}
}

// What jobs cost from their enqueueing to their end may become less, and should not become more.
// The golden file has the statements that are sent, one transaction a line, and the rows written.
func TestWhatALifeCosts(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t) // its log is this test's alone
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range []string{
		"alter system set autovacuum = off", "alter system set full_page_writes = off",
		"alter system set checkpoint_timeout = '1h'", "select pg_reload_conf()",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := Migrate(ctx, server.URL(), Options{}); err != nil {
		t.Fatal(err)
	}
	s, sent := tracedStoreAt(t, server.URL())
	later := time.Now().Add(time.Hour) // leave out what a store does only now and then
	s.sweeper.sweptAt, s.sweeper.expireCheckedAt = later, later
	s.bell.ringing = true // keep the goroutine from notifying other processes
	var b strings.Builder
	for _, l := range lives {
		l.run(t, callsOf(ctx, s), func(string) {}) // makes the queue, and prepares statements
		s.StopMarks(l.queue())                     // a slow machine would move them
		fmt.Fprintln(&b, l.name)
		s.bell.toldAt = time.Time{} // let the next enqueue notify other processes itself
		sent.transactions = nil
		l.run(t, callsOf(ctx, s), func(step string) {
			for _, statements := range sent.transactions {
				fmt.Fprintf(&b, "    %s sends %s\n", step, strings.Join(statementNames(s, statements), ", "))
			}
			sent.transactions = nil
		})
		tx, err := s.pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		written := map[string]int{}
		rowsWritten(t, tx, written) // the server still adds what earlier transactions wrote
		l.run(t, callsWithin(ctx, s.within(tx)), func(step string) {
			fmt.Fprintf(&b, "    %s writes %s\n", step, rowsWritten(t, tx, written))
		})
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		least := math.MaxFloat64
		for range 5 { // the server itself writes to the log now and then
			before := endOfLog(t, conn)
			l.run(t, callsOf(ctx, s), func(string) {})
			least = min(least, float64(endOfLog(t, conn)-before)/float64(l.jobs))
		}
		if t.Logf("%s: %.0f bytes of log for a job", l.name, least); least > float64(l.log) {
			t.Errorf("%s: %.0f bytes of log for a job, more than %d", l.name, least, l.log)
		}
	}
	golden.Match(t, "life.txt", b.String())
}

// rowsWritten lists what the transaction has written since the last call with the same sums.
func rowsWritten(t *testing.T, tx pgx.Tx, sums map[string]int) string {
	t.Helper()
	rows, err := tx.Query(t.Context(), `
		select relname || ': ' || what, n
		from pg_stat_xact_user_tables, lateral (values ('inserted', n_tup_ins), ('updated', n_tup_upd), ('deleted', n_tup_del)) v (what, n)
		where n > 0
		order by relname, what`)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	var what string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&what, &n}, func() error {
		if n > sums[what] {
			list = append(list, fmt.Sprintf("%s %d", what, n-sums[what]))
		}
		sums[what] = n
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, "; ")
}

func endOfLog(t *testing.T, conn *pgx.Conn) (n int64) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "select (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
