package advice_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/adopt/mapping"
)

// Check reports a status that no condition names, and values whose rows are never claimed.
func TestCheckTellsWhichStatesAreTaken(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		invoices(t, db)
		m := mapping.Mapping{
			Table: "invoices", ID: mapping.Columns{"id"}, Order: mapping.Columns{"id"}, SideTable: true,
			Rows:      mapping.Rows{Unfinished: "sent_at is null"},
			Completed: mapping.Change{Set: mapping.Set{"sent_at": "2026-01-31 10:00:00", "state": "sent"}},
		}
		taken := `no condition looks at state, so rows with any value are claimed: "to send" (6), "on hold" (4), "bounced" (3), "To send" (2), "sending" (1), null (5)`
		found(t, db, warning, "unfinished", taken, m)
		notFound(t, db, "unfinished", "no worker will ever", m)

		m.Unfinished = "state in ('to send', 'sending')"
		notFound(t, db, "unfinished", "no condition looks at", m)
		found(t, db, note, "unfinished", `no worker will ever take those with state "on hold" (4), "bounced" (3), "To send" (2), null (5)`, m)
		m.Dead = &mapping.Change{Set: mapping.Set{"state": "bounced"}}
		found(t, db, note, "unfinished", `no worker will ever take those with state "on hold" (4), "To send" (2), null (5)`, m)
		m.Where = "customer = 'nobody'"
		notFound(t, db, "unfinished", "no worker will ever", m)

		m.Where, m.Unfinished = "", "sent_at is null and coalesce(state, '') = 'to send'"
		for _, f := range findings(t, db, m) {
			if f.Severity == warning && strings.Contains(f.Text, "no condition looks at") {
				t.Errorf("%+v", f)
			}
		}
	})
}

// Check reports times that dibs cannot compare, with advice.
func TestCheckTellsWhichFormatOfTimesFits(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		if pg {
			return // timestamps have a type there
		}
		m := orders(t, db, pg)
		for value, want := range map[string]string{
			"2026-12-03": "leave the column out", "2026-12-03T10:00:00Z": "leave the column out", "soon": "leave the column out",
			"2026-12-03T10:00:00.000Z": "times: iso", "2026-12-03 10:00:00.000": "times: millis",
			"2026-12-03 10:00:00.000000": "times: micros",
		} {
			exec(t, db, "update orders set started_at = ?", value)
			var advice string
			for _, f := range findings(t, db, m) {
				if f.Severity == wrong && f.Field == "claim.started_at" {
					advice = f.Advice
				}
			}
			if !strings.Contains(advice, want) {
				t.Errorf("%s: %q", value, advice)
			}
		}
	})
}
