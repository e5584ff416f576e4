package adopt_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// Statements find rows by ctid. A child table created while workers run has rows with the same
// ctids: these must be neither claimed nor swept instead of the table's own.
func TestAChildThatATableGetsLaterIsLeftAlone(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec(t, db, `create table work (id bigint primary key, status text not null default 'new', token text, until timestamptz)`)
	exec(t, db, `insert into work (id) values (1), (2), (3)`)
	m := sided()
	m.SideTable, m.Claim.Timeout, m.Claim.Token, m.Lease = false, "until", "token", 100*time.Millisecond
	s := opened(t, db, m)
	exec(t, db, `create table child () inherits (work)`)
	exec(t, db, `insert into child (id, status) values (101, 'done'), (102, 'done'), (103, 'done'), (104, 'done'), (105, 'done')`)
	take(t, s, 2, 1, 2)
	until := time.Now().Add(5 * time.Minute)
	for n := 0; n < 2 && time.Now().Before(until); time.Sleep(20 * time.Millisecond) { // wait until the leases end
		swept, err := s.Sweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += swept.Expired
	}
	take(t, s, dibs.MaxBatch, 1, 2, 3)
	var changed int
	if err := db.QueryRowContext(t.Context(), `select count(*) from child where status <> 'done' or token is not null`).Scan(&changed); err != nil {
		t.Fatal(err)
	}
	if changed > 0 {
		t.Errorf("%d rows of the child, which had ended, were claimed", changed)
	}
}
