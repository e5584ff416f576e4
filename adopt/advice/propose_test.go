package advice_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// handBuilt lists tables of queues that people have built, in PostgreSQL's dialect. The test
// replaces what SQLite writes differently.
var handBuilt = []struct {
	name, table, rows string
	want              mapping.Mapping
}{
	{
		"a mark with attempts and a timeout",
		`create table documents (document_id integer primary key, priority smallint not null default 255, available_date timestamptz not null default current_timestamp,
			claim_mark uuid, server varchar(50), attempts int not null default 0, attempt_start timestamptz, attempt_end timestamptz, timeout_date timestamptz,
			successful boolean, body text not null, remark text)`,
		`insert into documents (document_id, body) values (1, '{"a": 1}'), (2, '{"a": 2}')`,
		mapping.Mapping{
			ID: mapping.Columns{"document_id"}, Order: mapping.Columns{"priority", "available_date"},
			Rows:    mapping.Rows{Unfinished: "successful is null", Available: "claim_mark is null", NotBefore: "available_date"},
			Claim:   mapping.Claim{Token: "claim_mark", LockedBy: "server", StartedAt: "attempt_start", Timeout: "timeout_date", Attempts: "attempts"},
			Payload: mapping.Payload{Columns: mapping.Columns{"body"}, JSON: true},
		},
	},
	{
		"started on and finished on",
		`create table exports (id integer primary key, created_on timestamptz not null default current_timestamp, started_on timestamptz, finished_on timestamptz, customer text, what text)`,
		``,
		mapping.Mapping{
			ID: mapping.Columns{"id"}, Order: mapping.Columns{"created_on"},
			Rows:  mapping.Rows{Unfinished: "finished_on is null", Available: "started_on is null"},
			Claim: mapping.Claim{StartedAt: "started_on"},
		},
	},
	{
		"numbers of states with groups",
		`create table "JobQueue" ("JobID" integer primary key, "StatusID" int not null default 1 check ("StatusID" in (1, 2, 3, 4)), "ConcurrencyGroup" varchar(20), "Parameters" text)`,
		`insert into "JobQueue" values (1, 3, 'a', 'x'), (2, 2, 'a', 'x'), (3, 1, null, 'x'), (4, 4, 'b', 'x')`,
		mapping.Mapping{
			ID: mapping.Columns{"JobID"}, Order: mapping.Columns{"JobID"},
			Rows:  mapping.Rows{Unfinished: `"StatusID" in (1, 2)`, Available: `"StatusID" = 1`},
			Claim: mapping.Claim{Set: mapping.Set{"StatusID": 2}}, Group: mapping.Group{Column: "ConcurrencyGroup"},
			Payload: mapping.Payload{Columns: mapping.Columns{"Parameters"}}, SideTable: true,
		},
	},
	{
		"numbers of states that an index tells",
		`create table tasks (id integer primary key, state_id int not null default 1, concurrency_group varchar(20), args text);
			create unique index one_running on tasks (concurrency_group) where state_id = 2`,
		`insert into tasks values (1, 1, 'a', 'x'), (2, 2, 'a', 'x'), (3, 9, null, 'x')`,
		mapping.Mapping{
			ID: mapping.Columns{"id"}, Order: mapping.Columns{"id"},
			Rows:  mapping.Rows{Unfinished: `state_id in (1, 2)`, Available: `state_id = 1`},
			Claim: mapping.Claim{Set: mapping.Set{"state_id": 2}}, Group: mapping.Group{Column: "concurrency_group"},
			Payload: mapping.Payload{Columns: mapping.Columns{"args"}}, SideTable: true,
		},
	},
	{
		"pending or complete, locked by and since",
		`create table requests (request_id text primary key not null, status varchar(10) not null default 'PENDING' check (status in ('PENDING', 'COMPLETE')),
			locked_by varchar(50), locked_time timestamptz, requested_time timestamptz not null default current_timestamp, completion_time timestamptz, request text not null)`,
		`insert into requests (request_id, status, request) values ('a', 'COMPLETE', 'x'), ('b', 'PENDING', 'y')`,
		mapping.Mapping{
			ID: mapping.Columns{"request_id"}, Order: mapping.Columns{"requested_time"},
			Rows:    mapping.Rows{Unfinished: "status = 'PENDING'", Available: "locked_time is null"},
			Claim:   mapping.Claim{LockedBy: "locked_by", StartedAt: "locked_time"},
			Payload: mapping.Payload{Columns: mapping.Columns{"request"}},
		},
	},
	{
		"a flag",
		`create table inbox (id integer primary key, message text not null, processed boolean not null default false)`,
		`insert into inbox values (1, 'x', false)`,
		mapping.Mapping{
			ID: mapping.Columns{"id"}, Order: mapping.Columns{"id"},
			Rows: mapping.Rows{Unfinished: "not processed"}, Payload: mapping.Payload{Columns: mapping.Columns{"message"}}, SideTable: true,
		},
	},
	{
		"a status in words",
		`create table mails (id integer primary key, state text default 'queued', payload json, error text, tries int not null default 0, priority int, started_at timestamptz, created_at timestamptz default current_timestamp)`,
		`insert into mails (id, state) values (1, 'queued'), (2, 'sending'), (3, 'sent'), (4, 'failed'), (5, 'running'), (6, 'cancelled')`,
		mapping.Mapping{
			ID: mapping.Columns{"id"}, Order: mapping.Columns{"priority", "created_at"},
			Rows:    mapping.Rows{Unfinished: "state in ('queued', 'running', 'sending')", Available: "state = 'queued'"},
			Claim:   mapping.Claim{StartedAt: "started_at", Attempts: "tries", Set: mapping.Set{"state": "running"}},
			Payload: mapping.Payload{Columns: mapping.Columns{"payload"}},
		},
	},
}

func TestProposals(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		for _, h := range handBuilt {
			t.Run(h.name, func(t *testing.T) {
				ctx := context.Background()
				text := h.table
				if !pg {
					text = strings.NewReplacer("timestamptz", "datetime", "uuid", "varchar(40)").Replace(text)
				}
				exec(t, db, text)
				if h.rows != "" {
					exec(t, db, h.rows)
				}
				if !pg && h.name == "started on and finished on" { // whole seconds do not fence claims
					h.want.SideTable = true
				}
				name := strings.Trim(strings.Fields(text)[2], `"`)
				m, reasons, err := advice.Propose(ctx, db, name)
				if err != nil {
					t.Fatal(err)
				}
				got := fmt.Sprintf("%v %v %+v %+v %v %+v %v", m.ID, m.Order, m.Rows, set(m.Claim), m.Group, m.Payload, m.SideTable)
				want := fmt.Sprintf("%v %v %+v %+v %v %+v %v", h.want.ID, h.want.Order, h.want.Rows, set(h.want.Claim), h.want.Group, h.want.Payload, h.want.SideTable)
				if got != want {
					t.Errorf("proposed\n%s\nnot\n%s", got, want)
				}
				yaml, err := advice.YAML(m, reasons)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(yaml)
				again, err := mapping.Parse([]byte(yaml))
				if err != nil {
					t.Fatalf("%v in\n%s", err, yaml)
				}
				if got, want := fmt.Sprintf("%+v", normal(again)), fmt.Sprintf("%+v", normal(m)); got != want {
					t.Errorf("the file says\n%s\nnot\n%s", got, want)
				}
				for _, f := range findings(t, db, again) {
					if f.Severity == wrong && !strings.Contains(yaml, "NOT SURE: "+f.Field) {
						t.Errorf("%+v in\n%s", f, yaml)
					}
				}
				if !strings.Contains(yaml, "# why: id: index ") || !strings.Contains(yaml, "# NOT SURE: ") {
					t.Errorf("lacks reasons:\n%s", yaml)
				}
			})
		}
	})
}

// set turns an empty set into nil.
func set(c mapping.Claim) mapping.Claim {
	if len(c.Set) == 0 {
		c.Set = nil
	}
	return c
}

// normal removes differences that a file does not keep, and makes pointers comparable.
func normal(m mapping.Mapping) []any {
	m.Claim = set(m.Claim)
	all := []any{m.Completed, m.PutBack.Set["x"], len(m.PutBack.Set)}
	for _, c := range []*mapping.Change{m.Dead, m.Cancelled} {
		if c != nil {
			all = append(all, *c)
		}
	}
	m.Dead, m.Cancelled, m.PutBack = nil, nil, mapping.Change{}
	if reflect.ValueOf(m.Group).IsZero() {
		m.Group = mapping.Group{}
	}
	return append(all, m)
}

func TestProposalOfATableThatTellsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table things (a int, b text)")
		m, reasons, err := advice.Propose(context.Background(), db, "things")
		if err != nil {
			t.Fatal(err)
		}
		text, err := advice.YAML(m, reasons)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"NOT SURE: id: there is no unique index", "NOT SURE: unfinished: no column shows", "NOT SURE: completed: not known"} {
			if !strings.Contains(text, want) {
				t.Errorf("lacks %q:\n%s", want, text)
			}
		}
		if _, _, err := advice.Propose(context.Background(), db, "nothing"); err == nil || !strings.Contains(err.Error(), "there is no table") {
			t.Errorf("of no table: %v", err)
		}
	})
}

// A column with another database's type for flags is a flag in SQLite, with rows or without.
func TestProposalOfFlagsByOtherNames(t *testing.T) {
	for decl, want := range map[string]string{
		"bit": "not processed", "BIT(1)": "not processed", "boolean": "not processed",
		"tinyint(1)": "coalesce(processed, 0) = 0", "TINYINT (1)": "coalesce(processed, 0) = 0",
	} {
		for _, rows := range []string{"", "insert into inbox (message, processed) values ('a', 0), ('b', 1)"} {
			t.Run(decl+" "+rows, func(t *testing.T) {
				t.Parallel()
				db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "t.db"))
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				exec(t, db, "create table inbox (id integer primary key, message text, processed "+decl+" not null default 0)")
				if rows != "" {
					exec(t, db, rows)
				}
				exec(t, db, "create index inbox_open on inbox (id) where "+want)
				m, text := proposed(t, db, "inbox")
				if m.Unfinished != want {
					t.Errorf("unfinished: %s, not %s, in\n%s", m.Unfinished, want, text)
				}
				for _, f := range findings(t, db, m) {
					if f.Severity != advice.SeverityNote {
						t.Errorf("%+v", f)
					}
				}
				s := open(t, db, m)
				exec(t, db, "insert into inbox (message) values ('c')")
				jobs := claim(t, s, 10)
				for _, j := range jobs {
					if err := s.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
						t.Error(err)
					}
				}
				var left int
				if err := db.QueryRow("select count(*) from inbox where processed <> 1").Scan(&left); err != nil || left > 0 || len(jobs) == 0 {
					t.Errorf("%d rows are left of %d, %v", left, len(jobs), err)
				}
			})
		}
	}
}

// A column of text whose times dibs cannot compare, such as those without a fraction, gets no role and no format.
func TestProposalOfTextInNoFormatOfTimes(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		if pg {
			return // times have a type there
		}
		exec(t, db, "create table parcels (id integer primary key, finished_at text, started_at text, worker text, tries int not null default 0)")
		exec(t, db, "insert into parcels values (1, null, '2026-01-31T10:00:00Z', null, 0)")
		m, text := proposed(t, db, "parcels")
		if m.Times != "" || m.Claim.StartedAt != "" {
			t.Errorf("times: %s, started_at: %s", m.Times, m.Claim.StartedAt)
		}
		for _, f := range findings(t, db, m) {
			if f.Severity == wrong {
				t.Errorf("%+v in\n%s", f, text)
			}
		}
	})
}
