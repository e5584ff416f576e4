package advice_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// invoices is a table in which the state, more than the date, says what is to be done.
func invoices(t *testing.T, db *sql.DB) {
	t.Helper()
	exec(t, db, `create table invoices (id integer primary key, inv_number varchar(20) not null unique, customer text, state text, sent_at varchar(30), due_date varchar(10),
		locked_at varchar(30), worker text, retries int not null default 0, last_error text)`)
	id := 0
	for _, of := range []struct {
		state, sent string
		rows        int
	}{{"'to send'", "null", 6}, {"'sending'", "null", 1}, {"'sent'", "'2026-01-31 10:00:00'", 9}, {"'on hold'", "null", 4}, {"'bounced'", "null", 3}, {"'To send'", "null", 2}, {"null", "null", 5}} {
		for range of.rows {
			id++
			exec(t, db, fmt.Sprintf("insert into invoices (id, inv_number, state, sent_at, due_date) values (%d, 'I-%[1]d', %s, %s, '2026-12-03')", id, of.state, of.sent))
		}
	}
}

func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("lacks %q:\n%s", w, text)
		}
	}
}

// Only rows whose state means to do are claimed: rows on hold or bounced are not.
func TestProposalTakesNoRowWhoseStateIsUnknown(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		invoices(t, db)
		m, text := proposed(t, db, "invoices")
		if m.Unfinished != "state in ('to send', 'To send', 'sending')" || m.Available != "state in ('to send', 'To send')" {
			t.Errorf("unfinished: %s, available: %s", m.Unfinished, m.Available)
		}
		if m.Claim.Set["state"] != "sending" || m.PutBack.Set["state"] != "to send" || m.Completed.Set["state"] != "sent" {
			t.Errorf("%+v %+v %+v", m.Claim, m.PutBack, m.Completed)
		}
		if m.NotBefore != "" || len(m.Order) != 1 || m.Order[0] != "id" {
			t.Errorf("not before %s, order %s", m.NotBefore, m.Order)
		}
		if got := fmt.Sprint(m.Dead.Set); got != "map[last_error:$error state:bounced]" { // without the time of sending
			t.Errorf("dead: %s", got)
		}
		contains(t, text, `state has "sent" (9), "to send" (6), "on hold" (4), "bounced" (3), "To send" (2), "sending" (1), null (5)`,
			`NOT SURE: unfinished: rows with these values of state are not claimed, since their meaning is not known: "on hold" (4), null (5).`)
	})
}

// If no value means "to do", a date alone decides, and the proposal lists the rows that it covers.
func TestProposalSaysWhatADateAloneWouldTake(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table parcels (id integer primary key, state varchar(10), finished_at timestamp)")
		exec(t, db, "insert into parcels values (1, 'blue', null), (2, 'red', null), (3, null, null), (4, 'red', '2026-01-31 10:00:00')")
		m, text := proposed(t, db, "parcels")
		if m.Unfinished != "finished_at is null" {
			t.Errorf("unfinished: %s", m.Unfinished)
		}
		contains(t, text, `NOT SURE: unfinished: all rows without finished_at would be done, whatever their state: "red" (1), "blue" (1), null (1)`)
	})
}

// A row that has failed must not look like a completed one.
func TestProposalNeverRecordsAFailureAsDone(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table letters (id integer primary key, state varchar(10) not null, sent_at timestamp, locked_at timestamp, worker text, tries int, last_error text)")
		exec(t, db, "insert into letters (id, state) values (1, 'to send'), (2, 'sending'), (3, 'sent')")
		m, text := proposed(t, db, "letters")
		if m.Dead != nil || m.MaxAttempts != 0 {
			t.Errorf("dead: %+v after %d attempts", m.Dead, m.MaxAttempts)
		}
		contains(t, text, "NOT SURE: dead: no value of state says that a row has failed for good; name one, such as dead: {set: {state: failed}}, or set side_table")

		exec(t, db, "create table notes (id integer primary key, state varchar(10) not null default 'new' check (state in ('new', 'working', 'done', 'rejected')), worker text)")
		if m, _ = proposed(t, db, "notes"); m.Dead == nil || m.Dead.Set["state"] != "rejected" {
			t.Errorf("dead: %+v", m.Dead)
		}
	})
}

// Only a column with such a name, and a comparable time, becomes not_before.
func TestProposalOfNotBefore(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		for i, c := range []struct {
			name, value string
			want        bool
		}{
			{"run_at", "2026-12-03 10:00:00", true},
			{"next_attempt_at", "2026-12-03 10:00:00", true},
			{"process_after", "2026-12-03 10:00:00", true},
			{"scheduled_for_date", "2026-12-03 10:00:00", true},
			{"scheduled_date", "2026-12-03", pg}, // its type makes it a time on PostgreSQL
			{"due_date", "2026-12-03 10:00:00", false},
			{"due_at", "2026-12-03 10:00:00", false},
			{"next_date", "2026-12-03 10:00:00", false},
			{"received_after", "2026-12-03 10:00:00", false},
		} {
			table := fmt.Sprintf("times_%d", i)
			exec(t, db, fmt.Sprintf("create table %s (id integer primary key, %s timestamp)", table, c.name))
			exec(t, db, fmt.Sprintf("insert into %s values (1, '%s')", table, c.value))
			if m, _ := proposed(t, db, table); (m.NotBefore == c.name) != c.want {
				t.Errorf("%s = %s: not_before %q", c.name, c.value, m.NotBefore)
			}
		}
	})
}

// A status of numbers that no row and no default shows has no known meanings: another column says what has failed.
func TestProposalOfAnEmptyTableWithANumericStatus(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table parcels (id integer primary key, status int, finished_at timestamp, last_error text)")
		m, text := proposed(t, db, "parcels")
		if m.Unfinished != "finished_at is null" || m.Dead == nil || m.Dead.Set["last_error"] != "$error" {
			t.Errorf("unfinished: %s, dead: %+v", m.Unfinished, m.Dead)
		}
		contains(t, text, "why: dead: last_error tells such a row from completed ones")
	})
}

// A number below that of a new row, and the numbers above failed, have no known meaning: no row that has one is claimed.
func TestProposalOfManyNumbersOfAStatus(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table parcels (id integer primary key, status int not null default 1)")
		exec(t, db, "insert into parcels values (1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5)")
		m, text := proposed(t, db, "parcels")
		if m.Unfinished != "status in (1, 2)" || m.Available != "status = 1" || m.PutBack.Set["status"] != 1 {
			t.Errorf("unfinished: %s, available: %s, put back: %v", m.Unfinished, m.Available, m.PutBack.Set)
		}
		contains(t, text, `their meaning is not known: "0" (1), "5" (1).`)
	})
}
