package postgres_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Two transactions that take two keys in opposite orders: one is refused, as docs/howto/sql.md says.
func TestTheFunctionsRefuseOneOfTwoOrdersOfKeys(t *testing.T) {
	t.Parallel()
	_, url := migrated(t, postgres.Options{})
	conns := []*pgx.Conn{connect(t, url), connect(t, url)}
	execute(t, conns[0], "begin; select dibs.enqueue('q', unique_key => 'a')")
	execute(t, conns[1], "begin; select dibs.enqueue('q', unique_key => 'b')")
	ended := make(chan error, 2)
	for i, key := range []string{"b", "a"} {
		go func() {
			_, err := conns[i].Exec(t.Context(), "select dibs.enqueue('q', unique_key => '"+key+"')")
			_, _ = conns[i].Exec(t.Context(), "rollback") // lets the other one go on
			ended <- err
		}()
	}
	refused := 0
	for range conns {
		var e *pgconn.PgError
		if err := <-ended; errors.As(err, &e) && e.Code == "40P01" {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	page, err := os.ReadFile("../docs/howto/sql.md")
	if err != nil || refused != 1 || !strings.Contains(string(page), "`40P01` (deadlock detected)") {
		t.Errorf("%d of two were refused for a deadlock, of which the page must tell; %v", refused, err)
	}
}

// A job that comes after another waits for it also when it is replaced or pushed by SQL.
func TestTheFunctionsChangeAJobThatWaitsForOthers(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	got, err := s.Enqueue(t.Context(), []dibs.NewJob{
		{Queue: "q", Kind: "first", Ref: "first"},
		{Queue: "q", Kind: "then", UniqueKey: "k", After: []dibs.Dep{{Ref: "first"}}},
		{Queue: "q", Kind: "then", UniqueKey: "g", Group: "g", After: []dibs.Dep{{Ref: "first"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	db := connect(t, url)
	for _, call := range []string{
		"dibs.enqueue('q', kind => 'new', unique_key => 'k', if_held => 'replace')",
		"dibs.enqueue('q', kind => 'new', unique_key => 'g', if_held => 'replace', group_key => 'other')",
		"dibs.enqueue('q', unique_key => 'k', if_held => 'push', delay => '1 ms', delay_limit => '1 hour')",
	} {
		execute(t, db, "select "+call)
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Kinds: []string{"then", "new"}, Worker: "w", N: 10, Lease: time.Minute})
		if err != nil || len(jobs) > 0 {
			t.Fatalf("after %s the claim gets %v, %v", call, jobs, err)
		}
	}
	first, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 10, Lease: time.Minute})
	if err != nil || len(first) != 1 || first[0].ID != got[0].ID {
		t.Fatal(first, err)
	}
	if err := s.Finish(t.Context(), []dibs.Outcome{first[0].Lease().Complete(nil)}); err != nil {
		t.Fatal(err)
	}
	var then []*dibs.RawJob
	for deadline := time.Now().Add(10 * time.Second); len(then) < 2 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 10, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		then = append(then, jobs...)
	}
	if len(then) != 2 || then[0].Kind != "new" || then[1].Kind != "new" {
		t.Errorf("afterwards the claims get %v", then)
	}
}
