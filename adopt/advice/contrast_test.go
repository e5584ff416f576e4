package advice_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// worked lists tables with rows that other programs have finished.
var worked = []struct {
	name, table, rows string
	completed         mapping.Set // proposed set, without its times
	claim             mapping.Set
}{
	{
		"two words for what has ended",
		`create table mails (id integer primary key, status varchar(20) not null default 'pending', sent_at timestamp, body text)`,
		`insert into mails (id, status, sent_at) values (1, 'pending', null), (2, 'pending', null), (3, 'opened', current_timestamp), (4, 'delivered', current_timestamp), (5, 'delivered', current_timestamp)`,
		mapping.Set{"status": "delivered"},
		nil,
	},
	{
		"two statuses",
		`create table parcels (id integer primary key, status varchar(20) not null default 'new', delivery_state varchar(20) not null default 'pending')`,
		`insert into parcels (id, status, delivery_state) values (1, 'new', 'pending'), (2, 'new', 'pending'), (3, 'done', 'handed over'), (4, 'done', 'handed over')`,
		mapping.Set{"status": "done", "delivery_state": "handed over"},
		nil,
	},
	{
		"a flag and a status",
		`create table outbox (id integer primary key, state varchar(20) not null default 'pending', processed boolean not null default false, in_process boolean not null default false)`,
		`insert into outbox (id, state, processed, in_process) values (1, 'pending', false, false), (2, 'pending', false, false), (3, 'exported', true, false), (4, 'exported', true, false), (5, 'pending', false, true), (6, 'pending', false, true)`,
		mapping.Set{"state": "exported", "processed": true},
		mapping.Set{"in_process": true},
	},
	{
		"a flag that says who has ended, and nothing waits",
		`create table letters (id integer primary key, closed_at timestamp, archived boolean not null default false)`,
		`insert into letters (id, closed_at, archived) values (1, current_timestamp, true), (2, current_timestamp, true)`,
		mapping.Set{"archived": true},
		nil,
	},
}

func TestProposalsLeaveRowsAsTheDataHasThem(t *testing.T) {
	for _, w := range worked {
		t.Run(w.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
				exec(t, db, w.table)
				exec(t, db, w.rows)
				m, reasons, err := advice.Propose(context.Background(), db, strings.Fields(w.table)[2])
				if err != nil {
					t.Fatal(err)
				}
				for name, want := range w.completed {
					if got := m.Completed.Set[name]; got != want {
						t.Errorf("completed sets %s to %v, want %v: %+v", name, got, want, reasons)
					}
				}
				for name, want := range w.claim {
					if got := m.Claim.Set[name]; got != want || m.PutBack.Set[name] != false {
						t.Errorf("claim sets %s to %v, want %v; put_back sets %v", name, got, want, m.PutBack.Set[name])
					}
				}
				for _, f := range findings(t, db, m) {
					if strings.Contains(f.Text, "rows that were read have") {
						t.Errorf("the proposal is contrary to the data: %s: %s", f.Field, f.Text)
					}
				}
			})
		})
	}
}

func TestCheckComparesWhatIsLeftWithTheData(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, `create table work (id integer primary key, status varchar(20) not null default 'pending', who text, in_process boolean not null default false, done_at timestamp, pages integer)`)
		for i, row := range []string{"'pending', null, false, null", "'pending', null, false, null", "'pending', 'x', true, null", "'pending', 'y', true, null", "'sent', null, false, current_timestamp", "'sent', 'x', false, current_timestamp"} {
			exec(t, db, fmt.Sprintf("insert into work (id, status, who, in_process, done_at, pages) values (%d, %s, %[1]d)", i+1, row))
		}
		m := mapping.Mapping{
			Table: "work", ID: mapping.Columns{"id"},
			Rows:      mapping.Rows{Unfinished: "done_at is null", Available: "who is null"},
			Claim:     mapping.Claim{LockedBy: "who"},
			Completed: mapping.Change{Set: mapping.Set{"done_at": "$now"}},
		}
		found(t, db, warning, "completed", "leaves status pending, but all 2 ended rows that were read have sent", m)
		found(t, db, warning, "claim", "leaves in_process false, but all 2 running rows that were read have true", m)
		m.Completed.Set["status"], m.Claim.Set = "sent", mapping.Set{"in_process": true}
		found(t, db, warning, "put_back", "leaves in_process true, but all 2 waiting rows that were read have false", m)
		m.PutBack.Set = mapping.Set{"in_process": false}
		m.Completed.Set["in_process"] = false
		for _, f := range findings(t, db, m) {
			if strings.Contains(f.Text, "rows that were read have") {
				t.Errorf("found %s: %s", f.Field, f.Text)
			}
		}
	})
}

// Of values that equally many rows have, a proposal takes the same one each time.
func TestProposalsForTheSameRowsAreAlike(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table parcels (id integer primary key, status varchar(20) not null default 'new', delivery_state varchar(20) not null default 'pending')")
		exec(t, db, "insert into parcels (id) values (1), (2)")
		for i := range 12 {
			exec(t, db, fmt.Sprintf("insert into parcels values (%d, 'done', '%s')", i+3, []string{"by hand", "by post", "by van"}[i%3]))
		}
		_, first := proposed(t, db, "parcels")
		for range 12 {
			if _, again := proposed(t, db, "parcels"); again != first {
				t.Fatalf("first\n%s\nthen\n%s", first, again)
			}
		}
		contains(t, first, "delivery_state: by hand\n")
	})
}

// A state that rows have while they wait is known even if the first rows of a large table have all ended.
func TestCheckFindsWhatRowsBehindEndedOnesHave(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table parcels (id integer primary key, done_at timestamp, state varchar(20) not null)")
		series := "with recursive s(i) as (select 1 union all select i + 1 from s where i < 20000)"
		exec(t, db, "insert into parcels (id, done_at, state) "+series+" select i, current_timestamp, 'sent' from s")
		exec(t, db, "insert into parcels (id, state) values (20001, 'packed'), (20002, 'packed')")
		m := mapping.Mapping{
			Table: "parcels", ID: mapping.Columns{"id"}, Rows: mapping.Rows{Unfinished: "done_at is null"}, SideTable: true,
			Completed: mapping.Change{Set: mapping.Set{"done_at": "$now"}},
		}
		found(t, db, warning, "completed", "leaves state packed, but all 20000 ended rows that were read have sent", m)
	})
}
