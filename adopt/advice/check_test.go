package advice_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

const (
	wrong   = advice.SeverityError
	warning = advice.SeverityWarning
	note    = advice.SeverityNote
)

func TestCheckTellsWhatAClaimCosts(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		series := "with recursive s(i) as (select 4 union all select i + 1 from s where i < 3000)"
		exec(t, db, "insert into orders (id, amount) "+series+" select i, i from s")
		measured := " ms, and reads the whole table, then sorts what it found"
		if pg {
			measured = " ms and reads "
		}
		found(t, db, warning, "index", measured, m)
		var advised string
		for _, f := range findings(t, db, m) {
			if f.Field == "index" {
				advised = f.Advice
			}
		}
		exec(t, db, advised)
		if pg {
			exec(t, db, "analyze orders")
		}
		measured = " ms, and finds rows by index dibs_orders_open"
		if pg {
			measured = "and reads "
		}
		found(t, db, note, "index", "dibs_orders_open gives rows in the order of claims", m)
		found(t, db, note, "index", measured, m)
		var n int
		if err := db.QueryRow("select count(*) from orders where started_at is not null").Scan(&n); err != nil || n > 0 {
			t.Errorf("%d rows were left claimed, %v", n, err)
		}
	})
}

func TestCheckLooksAtData(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		notFound(t, db, "available", "which no row has", m)
		found(t, db, note, "order", "2 of the unfinished rows that were read share their place", m)
		found(t, db, note, "order", "amount may be null", m)
		found(t, db, note, "completed.set", `sets status to "done", which no row has so far; rows have "new"`, m)
		found(t, db, warning, "available", `compares status with "nwe", which no row has`,
			changed(m, func(m *mapping.Mapping) { m.Available = "status in ('new', 'nwe')" }))

		exec(t, db, "update orders set status = 'working' where id = 1")
		found(t, db, warning, "claim", "1 rows are running, but without the time that would end their lease", m)
		unclear := changed(m, func(m *mapping.Mapping) { m.Available = "nullif(status, 'odd') = 'new'" })
		notFound(t, db, "running", "neither", unclear)
		exec(t, db, "update orders set status = 'odd' where id = 2")
		found(t, db, warning, "running", "1 unfinished rows are neither available nor running", unclear)
		strict := changed(m, func(m *mapping.Mapping) { m.Running = "status = 'working'" })
		found(t, db, warning, "running", "1 unfinished rows are neither available nor running", strict)
		both := changed(strict, func(m *mapping.Mapping) { m.Running = "status = 'working' or id = 3" })
		found(t, db, wrong, "running", "1 rows are both available and running", both)

		future := "datetime('now', '+2 hours')"
		if pg {
			future = "now() + interval '2 hours'"
		}
		exec(t, db, "update orders set started_at = "+future+" where id = 1")
		found(t, db, warning, "claim.started_at", "more than five minutes in the future", m)
		notFound(t, db, "claim.started_at", "not of the format", m)
		if !pg {
			exec(t, db, "update orders set started_at = '2026-01-31T10:00:00Z' where id = 1")
			found(t, db, wrong, "claim.started_at", "2026-01-31T10:00:00Z", m)
			exec(t, db, "create trigger note_it after update on orders begin select 1; end")
			found(t, db, note, "table", "note_it", m)
		}
		found(t, db, wrong, "order", "no column", changed(m, func(m *mapping.Mapping) { m.Order = mapping.Columns{"x"} }))
	})
}

func TestCheckFindsQueuesThatOverlap(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		named := func(queue, where string) mapping.Mapping {
			return changed(m, func(m *mapping.Mapping) { m.Queue, m.Where = queue, where })
		}
		small, large, rest := named("small", "amount < 15"), named("large", "amount > 15"), named("rest", "amount >= 10")
		found(t, db, wrong, "where", "2 rows are unfinished for queue large, too", large, rest)
		found(t, db, warning, "where", "nothing in the conditions excludes it", small, large)
		a, b := named("a", "amount = 10"), named("b", "t.amount = 20 and note is null")
		notFound(t, db, "where", "", a, b)
		found(t, db, wrong, "where", "rows are unfinished for queue a, too", a, named("c", "amount = 10 or note is null"))
	})
}

func TestCheckOfASideTableLeavesNoneBehind(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		m.SideTable, m.Claim, m.Available, m.PutBack = true, mapping.Claim{}, "", mapping.Change{}
		found(t, db, note, "safety", "fenced by a token in the side table", m)
		found(t, db, note, "safety", "in the table they stay unfinished, and other programs and views see them so", m)
		found(t, db, note, "safety", "is created when the mapping is first used", m)
		notFound(t, db, "table", "database is locked", m)
		if !pg {
			exec(t, db, "pragma journal_mode = delete")
			found(t, db, note, "table", "other programs that read it fail with", m)
		}
		if _, err := db.Exec("select 1 from dibs_adopted"); err == nil {
			t.Error("the side table is there")
		}
		jobs, err := advice.Try(context.Background(), db, m, 2)
		if err != nil || len(jobs) != 2 || !strings.Contains(string(jobs[0].Payload), `"amount"`) {
			t.Errorf("tried %v, %v", jobs, err)
		}
		if _, err := db.Exec("select 1 from dibs_adopted"); err == nil {
			t.Error("the side table is there")
		}
	})
}

// Constraints and triggers show only when rows are written.
func TestCheckTriesOutcomes(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		m.Dead = &mapping.Change{Set: mapping.Set{"ended_at": "$now", "status": "failed"}}
		found(t, db, note, "completed", "was not tried: no more rows", m)
		notFound(t, db, "cancelled", "not tried", m)
		exec(t, db, "insert into orders (id, amount) values (4, 1), (5, 1), (6, 1), (7, 1)")
		notFound(t, db, "completed", "not tried", m)
		notFound(t, db, "dead", "refuses", m)
		narrow := "create table narrow (id integer primary key, status varchar(10) not null default 'new' check (status in ('new', 'working', 'done')), started_at timestamp, ended_at timestamp, who varchar(40))"
		exec(t, db, narrow)
		exec(t, db, "insert into narrow (id) values (1), (2), (3), (4), (5), (6), (7), (8)")
		m.Table, m.Order = "narrow", nil
		m.Claim = mapping.Claim{StartedAt: "started_at", LockedBy: "who", Set: mapping.Set{"status": "working"}}
		found(t, db, wrong, "dead", "refuses this outcome", m)
		m.Claim.Set = mapping.Set{"status": "busy"}
		found(t, db, wrong, "claim", "refuses a claim of", m)
		var n int
		if err := db.QueryRow("select count(*) from narrow where status = 'new'").Scan(&n); err != nil || n != 8 {
			t.Errorf("%d rows are as they were, %v", n, err)
		}
		if !pg {
			return
		}
		m.Dead, m.Claim.Set = nil, mapping.Set{"status": "working"}
		exec(t, db, "create function meddle() returns trigger language plpgsql as 'begin new.started_at = new.started_at - interval ''1 minute''; return new; end'")
		exec(t, db, "create trigger meddle before update on narrow for each row execute function meddle()")
		found(t, db, wrong, "completed", "a trigger of the table may have changed it", m)
	})
}

func TestCheckOfRowLocksAlone(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		m.Claim, m.PutBack = mapping.Claim{}, mapping.Change{}
		found(t, db, note, "safety", "a claim lasts as long as a transaction", m)
		found(t, db, warning, "index", "a claim of one row takes", m)
	})
}

func TestAdvisedIndexes(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		text := sqlOf(t, db, m)
		on := ` on "orders"`
		if pg {
			on = ` on "public"."orders"`
		}
		for _, want := range []string{
			on + ` ("status", "amount" desc, "id") where ended_at is null;`,
			on + ` ("started_at") where (ended_at is null) and (not (status = 'new'));`,
			"-- == claim ==", "-- == completed ==", "1: ", "fenced by the exact values",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("lacks %q:\n%s", want, text)
			}
		}
		for line := range strings.Lines(text) { // the advised statements can be run
			if strings.HasPrefix(line, "create index") || strings.HasPrefix(line, "alter table") {
				exec(t, db, line)
			}
		}
		if text := sqlOf(t, db, m); !strings.Contains(text, "Index dibs_orders_open gives rows") || !strings.Contains(text, "By index dibs_orders_running sweeps find") {
			t.Errorf("what is there is advised again:\n%s", text)
		}
		m.Available, m.Claim.Set, m.PutBack = "t.started_at is null", nil, mapping.Change{}
		if text := sqlOf(t, db, m); strings.Contains(text, "fillfactor") {
			t.Errorf("%s", text) // each claim must write to the new index on started_at
		}
		if !pg {
			return
		}
		exec(t, db, "drop index dibs_orders_running")
		if text := sqlOf(t, db, m); !strings.Contains(text, "fillfactor = 50") || !strings.Contains(text, `-- create index "dibs_orders_running" on "public"."orders" ("started_at") where (ended_at is null) and (not (started_at is null));`) {
			t.Errorf("no room for claims in place:\n%s", text)
		}
	})
}

func sqlOf(t *testing.T, db *sql.DB, m mapping.Mapping) string {
	t.Helper()
	text, err := advice.SQL(t.Context(), db, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Check names the right that the user lacks for a claim or a check.
func TestCheckOfAUserWhoMayNot(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		if !pg {
			return // SQLite has no users
		}
		m := orders(t, db, pg)
		db.SetMaxOpenConns(1) // set role affects one connection
		role := "reader_" + strings.ToLower(rand.Text())
		exec(t, db, "create role "+role)
		t.Cleanup(func() { exec(t, db, "reset role; drop owned by "+role+"; drop role "+role) })
		var name string
		if err := db.QueryRow("select current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		exec(t, db, `revoke temporary on database "`+name+`" from public`)
		exec(t, db, "grant select on orders to "+role)
		exec(t, db, "set role "+role)
		found(t, db, wrong, "table", "a claim cannot be made: ", m)
		m.Available = "looks(status)"
		refuses(t, db, m, "available", "grant TEMPORARY on the database")
		m.Available = "status = 'new' and coalesce(note, '') <> 'x' and started_at < now()"
		if _, err := adopt.Open(context.Background(), db, m); err != nil {
			t.Errorf("a condition that calls nothing needs no view: %v", err)
		}
	})
}

// Columns without a time zone are in UTC unless the mapping says otherwise; Check reports this.
func TestTimesWithoutAZoneAreTold(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		exec(t, db, `create table task (id integer primary key, mark text, at timestamp, done integer)`)
		m := mapping.Mapping{
			Table: "task", ID: mapping.Columns{"id"}, Rows: mapping.Rows{Unfinished: "done is null", Available: "mark is null"},
			Claim: mapping.Claim{Token: "mark"}, Completed: mapping.Change{Set: mapping.Set{"done": 1}},
		}
		m.Claim.Timeout = "at"
		if !pg {
			notFound(t, db, "claim.timeout", "time zone", m)
			return
		}
		found(t, db, note, "claim.timeout", "dibs takes it to be in UTC", m)
		notFound(t, db, "safety", "in local time", m)
		m.Times = mapping.TimesLocal
		found(t, db, note, "safety", "at is in local time", m)
	})
}
