package adopt_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/adopt"
)

// A name that is no table's leads to the one that may be meant.
func TestATableThatIsNotThere(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		for _, name := range []string{"shipments", "customers", "mails"} {
			exec(t, db, "create table "+name+" (id integer primary key, status varchar(10))")
		}
		exec(t, db, "create view open_mails as select id, status from mails where status = 'new'")
		exec(t, db, "create view both_of_them as select m.id from mails m join customers c on c.id = m.id")
		exec(t, db, "create view pairs as select m.id from mails as m, customers c where c.id = m.id")
		wants := map[string]string{
			"shipmnets": "did you mean shipments?", "Shipments": "did you mean shipments?", "shipment": "did you mean shipments", "sales.mails": "did you mean mails?", "nothing": `there is no table "nothing" in this database; it has customers, mails, shipments`,
			"open_mails": "rows of a view cannot be locked; name the table beneath, mails", "both_of_them": "name the table beneath", "pairs": "name the table beneath",
		}
		if pg {
			exec(t, db, "create schema vendor")
			exec(t, db, "create table vendor.shipment_events (id integer primary key)")
			wants["shipment_events"] = "did you mean vendor.shipment_events"
		} else {
			delete(wants, "Shipments") // is the same there
		}
		for name, want := range wants {
			_, _, err := adopt.Propose(context.Background(), db, name)
			if err == nil || !strings.Contains(err.Error(), want) || strings.HasSuffix(want, "beneath") && !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
			refuses(t, db, adopt.Mapping{Table: name}, "table", want)
		}
	})
}
