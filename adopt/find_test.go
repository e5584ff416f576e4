package adopt_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// The error about a missing table names similar tables.
func TestATableThatIsNotThere(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		for _, name := range []string{"shipments", "customers", "mails"} {
			exec(t, db, "create table "+name+" (id integer primary key, status varchar(10))")
		}
		exec(t, db, "create view open_mails as select id, status from mails where status = 'new'")
		exec(t, db, "create view both_of_them as select m.id from mails m join customers c on c.id = m.id")
		exec(t, db, "create view pairs as select m.id from mails as m, customers c where c.id = m.id")
		wants := map[string]string{
			"shipmnets": "did you mean shipments?", "shipment": "did you mean shipments", "sales.mails": "did you mean mails?", "nothing": `there is no table "nothing" in this database; it has customers, mails, shipments`,
			"open_mails": "name the table that it reads, mails, and write", "both_of_them": "name the table that it reads, and write", "pairs": "name the table that it reads, and write",
		}
		if pg {
			exec(t, db, "create schema vendor")
			exec(t, db, "create table vendor.shipment_events (id integer primary key)")
			wants["shipment_event"] = "did you mean vendor.shipment_events"
		}
		for name, want := range wants {
			_, _, err := advice.Propose(context.Background(), db, name)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
			refuses(t, db, mapping.Mapping{Table: name}, "table", want)
		}
	})
}

// Find accepts a table's name in any quotes and any case.
func TestATableIsFoundByItsNameAsOtherDatabasesWriteIt(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		exec(t, db, `create table "Orders" (id integer primary key, status varchar(10) not null default 'new')`)
		exec(t, db, `create table "odd.name" (id integer primary key, status varchar(10) not null default 'new')`)
		wants := map[string]string{
			"Orders": "Orders", "orders": "Orders", "ORDERS": "Orders", "[orders]": "Orders", "`Orders`": "Orders", `"orders"`: "Orders",
			"dbo.Orders": "Orders", "[dbo].[Orders]": "Orders", "[DBO].orders": "Orders", `"odd.name"`: `"odd.name"`, "[odd.name]": `"odd.name"`,
		}
		if pg {
			exec(t, db, `create schema "My Schema"; create table "My Schema"."T" (id integer primary key); create table two (id integer primary key); create table "Two" (id integer primary key)`)
			for _, name := range []string{"My Schema.T", `"My Schema"."T"`, "[My Schema].[T]", "my schema.t", `[my schema].t`, "public.[Orders]"} {
				wants[name] = "My Schema.T"
			}
			wants["public.[Orders]"], wants["two"], wants["Two"] = "public.Orders", "two", "Two"
		} else {
			wants["main.orders"] = "main.orders"
		}
		for name, want := range wants {
			m, _, err := advice.Propose(t.Context(), db, name)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if !strings.EqualFold(m.Table, want) || pg && m.Table != want {
				t.Errorf("%s is taken for %s, not %s", name, m.Table, want)
			}
			least := mapping.Mapping{
				Table: name, Queue: "q", ID: mapping.Columns{"id"}, Order: mapping.Columns{"id"}, Rows: mapping.Rows{Unfinished: "id < 0"},
				Completed: mapping.Change{Delete: true}, SideTable: true,
			}
			if _, err := adopt.Open(t.Context(), db, least); err != nil {
				t.Errorf("a mapping of %s: %v", name, err)
			}
		}
		if !pg {
			return
		}
		if _, _, err := advice.Propose(t.Context(), db, "TWO"); err == nil || !strings.Contains(err.Error(), "two") || !strings.Contains(err.Error(), "Two") {
			t.Errorf("a name that two tables may have: %v", err)
		}
		if m, _, err := advice.Propose(t.Context(), db, "t"); err != nil || m.Table != "My Schema.T" {
			t.Errorf("the one table of that name is in another schema: %q, %v", m.Table, err)
		}
		// Opening a mapping never finds a table in a schema outside of the search path.
		refuses(t, db, mapping.Mapping{Table: "t"}, "table", "did you mean My Schema.T?")
	})
}
