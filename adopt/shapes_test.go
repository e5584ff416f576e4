package adopt_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// shape is a table as users may have it. A claim must return its rows with the keys in want, in
// this order.
type shape struct {
	name     string
	only     string // the only database with such a table; empty: both have it
	tables   []string
	rows     string
	change   func(*mapping.Mapping)
	want     []string
	payload  string // wanted payload of the first row; empty: not checked
	hasNoKey bool   // ids are whole numbers, so jobs have no Key
}

// task is the mapping that the shapes change.
func task() mapping.Mapping {
	return mapping.Mapping{
		Table: "task", ID: mapping.Columns{"id"}, Lease: time.Minute,
		Rows:      mapping.Rows{Unfinished: "done is null", Available: "mark is null"},
		Claim:     mapping.Claim{Token: "mark"},
		Completed: mapping.Change{Set: mapping.Set{"done": 1}},
	}
}

const numbered = `create table task (id integer primary key, mark text, done integer`

func wide() string {
	var b strings.Builder
	for i := range 130 {
		fmt.Fprintf(&b, ", c%d text default 'v%d'", i, i)
	}
	return b.String()
}

var shapes = []shape{
	{
		name:   "an id of two columns",
		tables: []string{`create table task (tenant text, no integer, mark text, done integer, primary key (tenant, no))`},
		rows:   `insert into task (tenant, no) values ('b', 1), ('a', 10), ('a', 9)`,
		change: func(m *mapping.Mapping) { m.ID = mapping.Columns{"tenant", "no"} },
		want:   []string{`["a", 9]`, `["a", 10]`, `["b", 1]`},
	},
	{
		name:   "an id of text, with all that needs care",
		tables: []string{`create table task (id varchar(40) primary key, mark text, done integer)`},
		rows:   `insert into task (id) values ('it''s'), ('"a"'), ('[1]'), ('{}\n'), ('ü €'), ('12')`,
		change: func(m *mapping.Mapping) { m.Order = mapping.Columns{"id desc"} },
		want:   []string{"ü €", `{}\n`, "it's", "[1]", "12", `"a"`},
	},
	{
		name: "a uuid", only: "postgres",
		tables: []string{`create table task (id uuid primary key, mark uuid, done integer)`},
		rows:   `insert into task (id) values ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'), ('00000000-0000-0000-0000-000000000001')`,
		want:   []string{"00000000-0000-0000-0000-000000000001", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
	},
	{
		name:     "names that must be quoted",
		tables:   []string{`create table "My ""Task" ("Id" integer primary key, "from" text, "Done At" integer, "select" text)`},
		rows:     `insert into "My ""Task" ("Id", "select") values (1, 'x'), (2, 'y')`,
		hasNoKey: true, want: []string{"1", "2"}, payload: `"x"`,
		change: func(m *mapping.Mapping) {
			m.Table, m.ID, m.Payload.Columns = `My "Task`, mapping.Columns{"Id"}, mapping.Columns{"select"}
			m.Unfinished, m.Available, m.Claim.Token = `"Done At" is null`, `"from" is null`, "from"
			m.Completed.Set = mapping.Set{"Done At": 1}
		},
	},
	{
		name:     "an id whose name holds what stands between names",
		tables:   []string{`create table task ("part, no" integer primary key, mark text, done integer)`},
		rows:     `insert into task ("part, no") values (1), (2)`,
		hasNoKey: true, want: []string{"1", "2"},
		change: func(m *mapping.Mapping) { m.ID = mapping.Columns{"part, no"} },
	},
	{
		name:     "more columns than a function takes",
		tables:   []string{numbered + wide() + `)`},
		rows:     `insert into task (id, c7) values (1, '"quoted"')`,
		hasNoKey: true, want: []string{"1"},
	},
	{
		name: "a table in parts", only: "postgres",
		tables: []string{
			`create table task (id integer, part integer, mark text, done integer, primary key (id, part)) partition by list (part)`,
			`create table task_1 partition of task for values in (1)`, `create table task_2 partition of task for values in (2)`,
		},
		rows:   `insert into task (id, part) values (1, 1), (1, 2), (2, 1), (2, 2)`,
		change: func(m *mapping.Mapping) { m.ID = mapping.Columns{"id", "part"} },
		want:   []string{"[1, 1]", "[1, 2]", "[2, 1]", "[2, 2]"},
	},
	{
		name: "ids of a type of an extension, which compares them in its own way", only: "postgres",
		tables: []string{
			`create schema ext`, `create extension citext schema ext`,
			`create table task (id ext.citext, part integer, mark ext.citext, done integer, primary key (id, part)) partition by list (part)`,
			`create table task_1 partition of task for values in (1)`,
		},
		rows:   `insert into task (id, part) values ('B', 1), ('a', 1)`,
		change: func(m *mapping.Mapping) { m.ID = mapping.Columns{"id", "part"} },
		want:   []string{`["a", 1]`, `["B", 1]`},
	},
	{
		name: "a table without rowid", only: "sqlite",
		tables: []string{`create table task (id text primary key, mark blob, done integer) without rowid`},
		rows:   `insert into task (id) values ('b'), ('a')`,
		want:   []string{"a", "b"},
	},
	{
		name: "enumerations and domains", only: "postgres",
		tables: []string{
			`create type state as enum ('new', 'busy', 'done')`, `create domain code as varchar(8)`,
			`create table task (id code primary key, state state not null default 'new', mark bytea, done integer)`,
		},
		rows: `insert into task (id) values ('x'), ('y')`,
		want: []string{"x", "y"},
		change: func(m *mapping.Mapping) {
			m.Unfinished, m.Available = "state in ('new', 'busy')", "state = 'new'"
			m.Claim.Set, m.Completed.Set, m.PutBack.Set = mapping.Set{"state": "busy"}, mapping.Set{"state": "done"}, mapping.Set{"state": "new"}
		},
	},
	{
		name:     "a locked_by that cannot be null, and values that need quotes",
		tables:   []string{numbered + `, who text not null default '', note text)`},
		rows:     `insert into task (id) values (1), (2)`,
		hasNoKey: true, want: []string{"1", "2"},
		change: func(m *mapping.Mapping) {
			m.Available, m.Claim = "who = ''", mapping.Claim{LockedBy: "who", Set: mapping.Set{"note": `it's \ $$1 "`}}
			m.PutBack.Set = mapping.Set{"who": "", "note": "$$now"}
		},
	},
}

func TestTablesOfAllShapes(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				if sh.only == "" || (sh.only == "postgres") == pg {
					sh.work(t, db, pg)
				}
			})
		})
	}
}

// work puts every row back once and then completes it.
func (sh shape) work(t *testing.T, db *sql.DB, pg bool) {
	for _, text := range append(sh.tables, sh.rows) {
		exec(t, db, text)
	}
	m := task()
	if sh.change != nil {
		sh.change(&m)
	}
	s := opened(t, db, m)
	first := sh.claim(t, s, pg)
	outcomes := make([]dibs.Outcome, len(first))
	for i, j := range first {
		outcomes[i] = j.Lease().RetryAfter(0, `an 'error' \`)
	}
	if err := s.Finish(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
	for i, j := range sh.claim(t, s, pg) {
		if j.Token == first[i].Token && m.Claim.Token != "" {
			t.Errorf("%s has the same token again", j.Key)
		}
		got, err := s.Get(t.Context(), j.ID)
		if err != nil || got.Key != j.Key || got.State != dibs.Running {
			t.Errorf("got %+v, %v", got, err)
		}
		outcomes[i] = j.Lease().Complete(nil)
	}
	if m.Claim.Token != "" {
		if err := s.Finish(t.Context(), []dibs.Outcome{first[0].Lease().Complete(nil)}); !errors.Is(err, dibs.ErrLeaseLost) {
			t.Errorf("with an old token: %v", err)
		}
	}
	if err := s.Finish(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
	if stats, err := s.Stats(t.Context()); err != nil || stats[0].Waiting != 0 || stats[0].Running != 0 {
		t.Errorf("in the end %+v, %v", stats, err)
	}
}

func (sh shape) claim(t *testing.T, s *adopt.Store, pg bool) []*dibs.RawJob {
	t.Helper()
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: s.Queue(), Worker: "w", N: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != len(sh.want) {
		t.Fatalf("%d rows were claimed, want %d", len(jobs), len(sh.want))
	}
	for i, j := range jobs {
		want := sh.want[i]
		if !pg && strings.HasPrefix(want, "[") {
			want = strings.ReplaceAll(want, ", ", ",")
		}
		if got := j.Key; !sh.hasNoKey && got != want || sh.hasNoKey && fmt.Sprint(j.ID) != want {
			t.Errorf("row %d is %q, id %d, want %q", i, got, j.ID, want)
		}
		if !json.Valid(j.Payload) {
			t.Errorf("payload of %q: %s", j.Key, j.Payload)
		}
	}
	if sh.payload != "" && string(jobs[0].Payload) != sh.payload {
		t.Errorf("the first payload is %s, want %s", jobs[0].Payload, sh.payload)
	}
	return jobs
}
