package advice_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

func counted(most int) mapping.Mapping {
	return mapping.Mapping{
		Table: "task", ID: mapping.Columns{"id"}, Lease: time.Minute, MaxAttempts: most,
		Rows:      mapping.Rows{Unfinished: "done is null", Available: "mark is null"},
		Claim:     mapping.Claim{Token: "mark", Attempts: "tries"},
		Completed: mapping.Change{Set: mapping.Set{"done": 1}},
		Dead:      &mapping.Change{Set: mapping.Set{"done": 2}},
	}
}

// Check derives from the table's constraints and types that attempts may pass what the table allows.
func TestCheckFindsAttemptsThatTheTableDoesNotAllow(t *testing.T) {
	const text = "attempts may pass what the table allows"
	for name, c := range map[string]struct {
		table string
		most  int
		found bool
		only  string
	}{
		"a constraint, and no limit":             {"tries integer not null default 0 check (tries <= 5)", 0, true, ""},
		"a constraint below the limit":           {"tries integer not null default 0, most integer default 3, check (tries between 0 and most)", 5, true, ""},
		"a constraint that allows the limit":     {"tries integer not null default 0, most integer default 5, check (tries between 0 and most)", 5, false, ""},
		"a small number, and no limit":           {"tries smallint not null default 0", 0, true, "postgres"},
		"a small number that suffices":           {"tries smallint not null default 0", 30_000, false, ""},
		"a trigger that refuses, whatever it is": {"tries integer not null default 0, check (id > 0 or tries = 0)", 0, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				if c.only == "postgres" && !pg {
					return // any number fits
				}
				exec(t, db, "create table task (id integer primary key, mark text, done integer, "+c.table+")")
				exec(t, db, "insert into task (id) values (1), (2)")
				m := counted(c.most)
				if c.most == 0 {
					m.Dead = nil
				}
				got := false
				for _, f := range findings(t, db, m) {
					got = got || strings.Contains(f.Text, text) && f.Severity == advice.SeverityWarning && f.Field == "max_attempts"
				}
				if got != c.found {
					t.Errorf("found: %v\n%+v", got, findings(t, db, m))
				}
			})
		})
	}
}

// Refused finds rows that the table refuses to have claimed, and has none of the others claimed.
func TestRefusedNamesRows(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table task (id integer primary key, mark text, done integer, tries integer not null default 0, check (tries <= 3))")
		exec(t, db, "insert into task (id, tries) values (1, 0), (2, 3), (3, 0), (4, 3)")
		m := counted(0)
		m.Dead = nil
		s, err := adopt.Open(t.Context(), db, m)
		if err != nil {
			t.Fatal(err)
		}
		found, err := advice.Refused(t.Context(), s)
		if err != nil || len(found) != 1 || !strings.Contains(found[0].Text, "2 of the next 4 rows (2, 4)") {
			t.Errorf("%+v, %v", found, err)
		}
		var claimed int
		if err := db.QueryRow("select count(*) from task where mark is not null").Scan(&claimed); err != nil || claimed > 0 {
			t.Errorf("%d rows are claimed, %v", claimed, err)
		}
	})
}

// Check says that nothing is left of dead rows that are deleted.
func TestCheckWarnsOfDeadRowsThatAreDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table task (id integer primary key, mark text, done integer, tries integer not null default 0)")
		m := counted(3)
		m.Dead = &mapping.Change{Delete: true}
		found(t, db, advice.SeverityWarning, "dead", "nothing is left", m)
	})
}

// A trigger of SQLite can end the whole transaction. Check and Refused then stop: what they did next would be kept.
func TestAnEndedTransactionLeavesNoClaim(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		if pg {
			return // a trigger cannot do that there
		}
		exec(t, db, "create table task (id integer primary key, mark text, done integer, tries integer not null default 0)")
		exec(t, db, "insert into task (id) values (1), (2), (3), (4), (5)")
		exec(t, db, "create trigger no before update on task when new.id = 4 begin select raise(rollback, 'not today'); end")
		m := counted(3)
		found(t, db, advice.SeverityError, "claim", "ends the whole transaction", m)
		s, err := adopt.Open(t.Context(), db, m)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := advice.Refused(t.Context(), s); err == nil {
			t.Errorf("refused: %+v", found)
		}
		var claimed int
		if err := db.QueryRow("select count(*) from task where mark is not null or tries > 0").Scan(&claimed); err != nil || claimed > 0 {
			t.Errorf("%d rows are claimed, %v", claimed, err)
		}
	})
}
