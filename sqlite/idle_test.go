package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// A claim that finds nothing writes nothing, nor does a look for due jobs: else each would wake all workers that wait for other kinds,
// whose claims would wake this one.
func TestACallThatChangesNothingWritesNothing(t *testing.T) {
	path := t.TempDir() + "/dibs.db"
	s := openAt(t, path, sqlite.Options{})
	other := openAt(t, path, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "another"}}); err != nil {
		t.Fatal(err)
	}
	conn, err := other.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	version := func() (n int) {
		t.Helper()
		if err := conn.QueryRowContext(t.Context(), "pragma data_version").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	claim := func(kind string) int {
		t.Helper()
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1, Kinds: []string{kind}})
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs)
	}
	if err := s.StopSweeping(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := version()
	for range 10 {
		claim("none")
		if due, err := s.Due(t.Context(), []string{dibs.DefaultQueue}, nil); err != nil || len(due) != 1 {
			t.Fatal(due, err)
		}
	}
	if version() != before {
		t.Error("claims that found nothing, or looks for due jobs, have written")
	}
	if claim("another") != 1 || version() == before {
		t.Error("a claim that found a job has not been committed")
	}
}

// Queues that have nothing to do cost a sweep, and a look for due jobs, no statement of their own.
func TestManyQueuesCostASweepNoStatements(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	jobs := make([]dibs.NewJob, 100)
	queues := make([]string, len(jobs))
	for i := range jobs {
		queues[i] = fmt.Sprint("q", i)
		jobs[i] = dibs.NewJob{Queue: queues[i], Kind: "k"}
	}
	if _, err := s.Enqueue(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	sweep, due, err := s.CountStatements(t.Context(), queues)
	if err != nil || sweep > 30 || due > 5 {
		t.Errorf("a sweep of 100 queues runs %d statements, a look for due jobs %d: %v", sweep, due, err)
	}
}
