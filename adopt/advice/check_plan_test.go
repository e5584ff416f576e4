package advice_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// The planner, not the columns of an index, decides whether the index serves claims.
func TestCheckKnowsWhichIndexesServeClaims(t *testing.T) {
	cases := []struct {
		index, unfinished string
		order             mapping.Columns
		group             string
		want              bool
	}{
		{"(processed, id)", "processed = 0", mapping.Columns{"id"}, "", true},
		{"(processed, id)", "t.processed = 0 and grp <> 'x'", mapping.Columns{"id"}, "", true},
		{"(processed, id) where processed = 0", "processed = 0", mapping.Columns{"id"}, "", true},
		{"(processed, created)", "processed = 0", mapping.Columns{"created"}, "", true}, // only rows with equal times are sorted by id
		{"(processed, created desc, id)", "processed = 0", mapping.Columns{"created desc"}, "", true},
		{"(processed, created)", "processed = 0", mapping.Columns{"created"}, "grp", true},
		{"(finished, created, id)", "finished is null", mapping.Columns{"created"}, "", true},
		{"(processed, grp)", "processed = 0", mapping.Columns{"created"}, "", false},
		{"(processed, grp)", "processed = 0", mapping.Columns{"id"}, "grp", false},
		{"(created, id)", "processed = 0", mapping.Columns{"created"}, "", false}, // also reads all rows that have ended
		{"(created)", "processed = 0", mapping.Columns{"created"}, "grp", false},
		{"(processed)", "processed = 0", mapping.Columns{"created"}, "", false},
		{"(grp)", "processed = 0", mapping.Columns{"id"}, "", false},
		{"(created) where processed = 1", "processed = 0", mapping.Columns{"created"}, "", false},
	}
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		for _, c := range cases {
			exec(t, db, "drop table if exists work")
			exec(t, db, "create table work (id integer primary key, processed smallint not null default 0, created integer not null default 0, finished timestamp, grp varchar(5))")
			exec(t, db, "insert into work (id, grp) values (1, 'a'), (2, 'b'), (3, null)")
			exec(t, db, "create index work_open on work "+c.index)
			m := mapping.Mapping{
				Table: "work", ID: mapping.Columns{"id"}, Order: c.order, Rows: mapping.Rows{Unfinished: c.unfinished}, SideTable: true,
				Completed: mapping.Change{Set: mapping.Set{"processed": 1, "finished": "$now"}}, Group: mapping.Group{Column: c.group},
			}
			served, said := true, ""
			for _, f := range findings(t, db, m) {
				if f.Field == "index" {
					served, said = f.Severity == advice.SeverityNote, f.Text
				}
			}
			text, err := advice.SQL(t.Context(), db, m, 1)
			if err != nil {
				t.Fatal(err)
			}
			want := c.want && (!pg || !strings.Contains(c.unfinished, "null")) // PostgreSQL does not use an index's order after "is null"
			if says := strings.Contains(text, "Index work_open gives rows"); served != want || says != want {
				t.Errorf("%v: check says that an index serves: %v, sql: %v, want %v: %s", c, served, says, want, said)
			}
		}
	})
}

// The proposed condition on a flag lets the planner use the flag's index.
func TestCheckFindsTheIndexOfAProposedFlag(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table work (id integer primary key, processed boolean not null default false)")
		exec(t, db, "create index work_processed on work (processed, id)")
		m, text := proposed(t, db, "work")
		for _, f := range findings(t, db, m) {
			if f.Severity != advice.SeverityNote {
				t.Errorf("%+v in\n%s", f, text)
			}
		}
	})
}
