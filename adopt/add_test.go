package adopt_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

// An outcome that adds jobs is refused by name, and nothing of its batch is written: the jobs would be lost otherwise.
func TestAnOutcomeAddsNoJobsToATable(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		exec(t, db, `create table work (id varchar(9) primary key, status text not null default 'new', pri int not null default 0)`)
		exec(t, db, `insert into work (id) values ('a'), ('b')`)
		m := sided()
		m.Lease = time.Hour
		s := opened(t, db, m)
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: s.Queue(), Worker: "w", N: 2})
		if err != nil || len(jobs) != 2 {
			t.Fatalf("claimed %d rows: %v", len(jobs), err)
		}
		plain, adds := jobs[0].Lease().Complete(nil), jobs[1].Lease().Complete(nil)
		adds.Add = []dibs.NewJob{{Kind: "k"}}
		var rule *dibs.InvalidError
		if err := s.Finish(t.Context(), []dibs.Outcome{plain, adds}); !errors.As(err, &rule) || rule.Field != "outcomes[1].add" {
			t.Errorf("the error is %v", err)
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{plain, jobs[1].Lease().Complete(nil)}); err != nil {
			t.Errorf("then without them: %v", err)
		}
	})
}
