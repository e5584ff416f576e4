package adopt_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/adopttest"
)

func productNamed(name string) product {
	return products[slices.IndexFunc(products, func(p product) bool { return p.name == name })]
}

// Check tells of rows that another program has reserved: if no condition looks at the column, and if their time ends.
func TestCheckTellsOfRowsThatOthersHaveTaken(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		productNamed("laravel").fill(t, db, kindIf(pg))
		m := mapping.Mapping{
			Table: "jobs", ID: mapping.Columns{"id"}, Order: mapping.Columns{"id"}, Lease: 90 * time.Second, Times: mapping.TimesUnix,
			Rows: mapping.Rows{Unfinished: "true", NotBefore: "available_at"}, Completed: mapping.Change{Delete: true}, SideTable: true,
		}
		found(t, db, advice.SeverityWarning, "available", "no condition looks at reserved_at, which is set in 1 rows that would be claimed: another program may have taken them", m)
		m.Available, m.Claim = "reserved_at is null", mapping.Claim{StartedAt: "reserved_at", Attempts: "attempts"}
		adopttest.NotFound(t, db, "available", "reserved_at", m)
		found(t, db, advice.SeverityNote, "lease", "1 rows are in progress: dibs takes them over 1m30s after their reserved_at, also from other programs", m)
		m.SideTable = false
		found(t, db, advice.SeverityNote, "lease", "1 rows are in progress", m)
	})
}

// Rows in progress can hold all places of the groups, or of the queue. Then Full says why nothing is claimed.
func TestFullGroupsAreTold(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		productNamed("action_scheduler").fill(t, db, kindIf(pg))
		m := mapping.Mapping{
			Table: "wp_actionscheduler_actions", ID: mapping.Columns{"action_id"}, Order: mapping.Columns{"scheduled_date_gmt"},
			Rows:  mapping.Rows{Unfinished: "status in ('pending', 'in-progress')", Available: "status = 'pending'", NotBefore: "scheduled_date_gmt"},
			Group: mapping.Group{Column: "group_id"}, Claim: mapping.Claim{Set: mapping.Set{"status": "in-progress"}},
			Completed: mapping.Change{Set: mapping.Set{"status": "complete"}}, PutBack: mapping.Change{Set: mapping.Set{"status": "pending"}}, SideTable: true,
		}
		if got := full(t, db, m); !strings.Contains(got, "warning group: 3 rows are due, and none can be claimed: they wait for their groups: rows in progress hold all places of 2 groups, such as those of \"0\" (limit 1)") {
			t.Errorf("told: %s", got)
		}
		exec(t, db, "update wp_actionscheduler_actions set group_id = 5 where action_id = 6")
		if got := full(t, db, m); !strings.Contains(got, "note group: 2 of 3 due rows wait for their groups: rows in progress hold all places of 1 groups") {
			t.Errorf("told of some: %s", got)
		}
		m.Group, m.Concurrency = mapping.Group{}, 3
		if got := full(t, db, m); !strings.Contains(got, "warning concurrency: 3 rows are due, and none can be claimed: as many as concurrency allows, 3, are in progress") {
			t.Errorf("told of the limit: %s", got)
		}
		if m.Concurrency = 4; full(t, db, m) != "" {
			t.Errorf("with a free place: %s", full(t, db, m))
		}
	})
}

func full(t *testing.T, db *sql.DB, m mapping.Mapping) string {
	t.Helper()
	all, err := advice.Full(t.Context(), open(t, db, m))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range all {
		b.WriteString(string(f.Severity) + " " + f.Field + ": " + f.Text + "\n")
	}
	return b.String()
}
