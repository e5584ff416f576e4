package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// However many changes were noted, each new one drops the oldest beyond the limit, and only a bounded number of them.
func TestOldChangesAreForgotten(t *testing.T) {
	t.Parallel()
	s, address := migrated(t, postgres.Options{})
	owner := connect(t, address)
	execute(t, owner, "insert into dibs.audit (who, did, what, n) select 'old', 'x', 'y', i from generate_series(1, 12000) i")
	left := func() (n int) {
		if err := owner.QueryRow(t.Context(), "select count(*) from dibs.audit").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, want := range []int{11_001, 10_002, 10_001, 10_001, 10_001} {
		if err := s.NoteChange(t.Context(), admin.Change{Who: "new", Did: "x", N: i}); err != nil {
			t.Fatal(err)
		}
		if n := left(); n != want {
			t.Errorf("after %d more, there are %d changes, not %d", i+1, n, want)
		}
	}
	list, err := s.Changes(t.Context(), admin.MaxChanges)
	if err != nil || len(list) != admin.MaxChanges || list[0].Who != "new" || list[0].N != 4 || list[5].Who != "old" || list[5].N != 12_000 {
		t.Errorf("%d changes, the newest %+v, %v", len(list), list[0], err)
	}
}

// A role without rights on the table of changes works; only what notes and lists them fails, and names the table.
func TestARoleThatCannotNoteChangesWorks(t *testing.T) {
	t.Parallel()
	_, address := migrated(t, postgres.Options{})
	role := pgtest.Role(t, address, pgtest.Grants...)
	name, err := url.Parse(role)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, connect(t, address), "revoke all on dibs.audit from "+name.User.Username())
	db := opened(t, role, postgres.Options{})
	if _, err := db.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	if jobs, err := db.Claim(t.Context(), dibs.ClaimRequest{N: 1, Worker: "w", Lease: time.Hour}); err != nil || len(jobs) != 1 {
		t.Errorf("claimed %d jobs, %v", len(jobs), err)
	}
	for _, err := range []error{
		db.NoteChange(t.Context(), admin.Change{Did: "x"}),
		func() error { _, err := db.Changes(t.Context(), 1); return err }(),
	} {
		if !errors.Is(err, dibs.ErrDenied) || !strings.Contains(err.Error(), "permission denied for table audit") {
			t.Errorf("got %v", err)
		}
	}
}
