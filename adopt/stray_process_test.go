package adopt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
)

// mailing maps a table with a status and a start time, and with leases in the side table.
var mailing = owned{
	name:   "mailing",
	ended:  "new.status in ('done', 'failed')",
	byHand: "update mailing set status = 'done', remark = 'by hand' where id = cast($1 as integer) and status in ('new', 'busy')",
	insert: "insert into mailing (body) values ",
	values: func(_ int, do string) string { return fmt.Sprintf(`('{"do": "%s"}')`, do) },
}

// Three processes, of which one is killed, complete once each the rows that a program without
// dibs had taken before it crashed. Another program goes on inserting.
func TestRowsThatACrashedProgramHadTakenAreDone(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	onEvery(t, func(t *testing.T, driver, dsn string) {
		f := &fleet{owned: mailing, rows: 900, extra: 100, processes: 3, kills: 3, limit: 5 * time.Minute}
		f.make(t, driver, dsn)
		long := map[string]string{
			"sqlite": "datetime('now', '-1 day')", "postgres": "now() - interval '1 day'", "mariadb": "utc_timestamp() - interval 1 day",
		}[f.kind]
		statement(t, f.db, "update mailing set status = 'busy', started_at = "+long+" where id <= 30")
		found := f.run(t)
		found.judge(func(format string, args ...any) { t.Errorf(format, args...) })
		if found.recovered == 0 {
			t.Error("no row of the killed process was recovered: nothing was tested")
		}
	})
}
