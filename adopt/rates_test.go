package adopt_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// Stats has the averages of the last minutes, and reads no large history for them.
func TestStatsFromTheTimesOfATable(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		stamp, ago := "datetime", "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-%d seconds')"
		many := "with recursive n(i) as (select 1 union all select i + 1 from n where i < 21000) insert into work (id, made, began, ended, status) select i, '2020-01-01 00:00:00.000', '2020-01-01 00:00:01.000', '2020-01-01 00:00:02.000', 'done' from n"
		if pg {
			stamp, ago = "timestamptz", "now() - interval '%d seconds'"
		}
		exec(t, db, "create table work (id integer primary key, made "+stamp+" not null, began "+stamp+", ended "+stamp+", status varchar(10) not null)")
		at := func(secs int) string { return fmt.Sprintf(ago, secs) }
		add := func(id int, made, began, ended, status string) {
			exec(t, db, fmt.Sprintf("insert into work values (%d, %s, %s, %s, '%s')", id, made, began, ended, status))
		}
		add(100_001, at(100), at(90), at(60), "done")
		add(100_002, at(100), at(80), at(70), "done")
		add(100_003, at(100), at(99), at(2), "failed") // this row has not completed
		add(100_004, at(1000), at(990), at(900), "done")
		add(100_005, at(600), "null", "null", "new")
		m := mapping.Mapping{
			Table: "work", ID: mapping.Columns{"id"}, Order: mapping.Columns{"made"}, Times: mapping.TimesMillis,
			Rows:      mapping.Rows{Unfinished: "ended is null", Available: "began is null"},
			Claim:     mapping.Claim{StartedAt: "began"},
			Completed: mapping.Change{Set: mapping.Set{"ended": "$now", "status": "done"}},
			Dead:      &mapping.Change{Set: mapping.Set{"ended": "$now", "status": "failed"}},
			Lease:     time.Minute,
		}
		s := open(t, db, m)
		if got := s.Known(); got != (adopt.Known{Oldest: true, Wait: true, Run: true, Rate: true}) {
			t.Errorf("known: %+v", got)
		}
		look := func(when string, window time.Duration) {
			t.Helper()
			stats, err := s.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := stats[0]
			if got.OldestAge < 599*time.Second || got.OldestAge > time.Hour || got.Waiting != 1 || got.Window != window {
				t.Errorf("%s: %+v", when, got)
			}
			if near := func(a, b time.Duration) bool { return (a - b).Abs() < 10*time.Millisecond }; window > 0 &&
				(got.Succeeded != 2 || got.Claimed != 2 || !near(got.AvgWait, 15*time.Second) || !near(got.AvgRun, 20*time.Second) || got.Throughput != 2./300) {
				t.Errorf("%s: %+v", when, got)
			}
		}
		look("a small table", 5*time.Minute)
		exec(t, db, many)
		s = open(t, db, m)
		look("a large one without an index", 0)
		exec(t, db, "create index work_ended on work (ended)")
		s = open(t, db, m)
		look("a large one with an index", 5*time.Minute)
	})
}
