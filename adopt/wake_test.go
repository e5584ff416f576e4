package adopt_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

// No signal comes for rows that other programs insert. So a claim that takes all available rows, but
// fewer than it asks for, wakes the workers soon after. A claim of enough rows, or none, does not.
func TestAClaimThatTookAllThereWasIsMadeAgain(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, `create table work (id integer primary key, status text not null default 'new')`)
		exec(t, db, `insert into work (id) values (1), (2), (3)`)
		m := sided()
		m.Lease = time.Hour
		s := opened(t, db, m)
		wake, stop := s.Wakeups(s.Queue())
		defer stop()
		take(t, s, 2, 1, 2)
		select {
		case <-wake:
			t.Error("woken though the claim got as many as it wanted")
		case <-time.After(50 * time.Millisecond):
		}
		take(t, s, 2, 3)
		select {
		case <-wake:
		case <-time.After(10 * time.Second):
			t.Error("not woken after a claim that took all there was")
		}
		if jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: s.Queue(), Worker: "w", N: 2}); err != nil || len(jobs) != 0 {
			t.Fatal(jobs, err)
		}
		select {
		case <-wake:
			t.Error("woken by a claim that found nothing: it would be made for ever")
		case <-time.After(50 * time.Millisecond):
		}
	})
}
