package adopt_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// If extending changes a fence, a row that has just been finished must not keep the other
// leases of the call from being extended.
func TestExtendPassesOverWhatWasJustFinished(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table work (id integer primary key, started bigint, ended integer)")
		exec(t, db, "insert into work (id) values (1), (2)")
		s, err := adopt.Open(t.Context(), db, mapping.Mapping{
			Table: "work", ID: mapping.Columns{"id"},
			Rows:      mapping.Rows{Unfinished: "ended is null", Available: "started is null"},
			Claim:     mapping.Claim{StartedAt: "started"},
			Times:     mapping.TimesUnixMS,
			Completed: mapping.Change{Set: mapping.Set{"ended": 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		jobs := take(t, s, 2, 1, 2)
		if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
		x, err := s.Extend(t.Context(), []dibs.Lease{jobs[0].Lease(), jobs[1].Lease()}, time.Second)
		if err != nil || len(x.Lost) != 1 || x.Lost[0] != 1 {
			t.Errorf("extended with %+v, %v; want that 1 is lost and 2 is not", x, err)
		}
	})
}
