// Package adopttest makes databases and tables for tests of adopted tables.
package adopttest

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// OnEach runs a test with a fresh database of each kind, beside other tests.
func OnEach(t *testing.T, f func(t *testing.T, db *sql.DB, pg bool)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "t.db")+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		f(t, db, false)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("pgx", pgtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		f(t, db, true)
	})
}

// Exec runs a statement.
func Exec(t *testing.T, db *sql.DB, q string, args ...any) {
	t.Helper()
	if _, err := db.Exec(q, args...); err != nil {
		t.Fatal(err)
	}
}

// Orders makes a table of orders, as many shops have one, and returns a mapping that fits it.
func Orders(t *testing.T, db *sql.DB, pg bool) mapping.Mapping {
	t.Helper()
	if pg {
		Exec(t, db, `create table orders (id bigint primary key, status text not null default 'new', body json, amount int,
			started_at timestamptz, ended_at timestamptz, worker varchar(100), tries int not null default 0, note varchar(8), busy boolean default false)`)
		Exec(t, db, `create function touch(int) returns boolean language plpgsql as 'begin delete from orders; return true; end'`)
		Exec(t, db, `create function looks(text) returns boolean language sql stable as 'select $1 = ''new'''`)
		Exec(t, db, `create function free(orders) returns boolean language sql stable as 'select $1.status = ''new'''`)
		Exec(t, db, `create view vague as select random() as x`)
	} else {
		Exec(t, db, `create table orders (id integer primary key, status text not null default 'new', body json, amount int,
			started_at datetime, ended_at datetime, worker varchar(100), tries int not null default 0, note varchar(8), busy boolean default false)`)
	}
	Exec(t, db, `insert into orders (id, amount) values (1, 10), (2, 20), (3, 20)`)
	return mapping.Mapping{
		Table: "orders", ID: mapping.Columns{"id"}, Order: mapping.Columns{"amount desc"},
		Rows:      mapping.Rows{Unfinished: "ended_at is null", Available: "status = 'new'"},
		Claim:     mapping.Claim{StartedAt: "started_at", LockedBy: "worker", Attempts: "tries", Set: mapping.Set{"status": "working"}},
		Completed: mapping.Change{Set: mapping.Set{"ended_at": "$now", "status": "done"}},
		PutBack:   mapping.Change{Set: mapping.Set{"status": "new"}},
	}
}

// Changed returns a copy of a mapping with a change.
func Changed(m mapping.Mapping, change func(*mapping.Mapping)) mapping.Mapping {
	for _, set := range []*mapping.Set{&m.Claim.Set, &m.Completed.Set, &m.PutBack.Set} {
		own := mapping.Set{}
		for k, v := range *set {
			own[k] = v
		}
		*set = own
	}
	change(&m)
	return m
}

// Refuses asserts that Open names the field of the mapping and says why.
func Refuses(t *testing.T, db *sql.DB, m mapping.Mapping, field, why string) {
	t.Helper()
	_, err := adopt.Open(context.Background(), db, m)
	var bad *dibs.InvalidError
	switch {
	case !errors.As(err, &bad):
		t.Errorf("want an error about %s: %s; got %v", field, why, err)
	case bad.Field != field || !strings.Contains(bad.Reason, why):
		t.Errorf("want an error about %s: %s; got %v", field, why, err)
	}
}

// Open opens the adopted table that the mapping is about.
func Open(t *testing.T, db *sql.DB, m mapping.Mapping) *adopt.Store {
	t.Helper()
	s, err := adopt.Open(t.Context(), db, m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Claim claims up to n rows.
func Claim(t *testing.T, s *adopt.Store, n int) []*dibs.RawJob {
	t.Helper()
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: n})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// Findings returns what Check finds.
func Findings(t *testing.T, db *sql.DB, mappings ...mapping.Mapping) []advice.Finding {
	t.Helper()
	all, err := advice.Check(context.Background(), db, mappings...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Proposed returns the mapping that Propose makes, and the text of its file.
func Proposed(t *testing.T, db *sql.DB, table string) (mapping.Mapping, string) {
	t.Helper()
	m, reasons, err := advice.Propose(context.Background(), db, table)
	if err != nil {
		t.Fatal(err)
	}
	text, err := advice.YAML(m, reasons)
	if err != nil {
		t.Fatal(err)
	}
	return m, text
}

// Found asserts that Check finds something, of that severity, about that field.
func Found(t *testing.T, db *sql.DB, s advice.Severity, field, text string, mappings ...mapping.Mapping) {
	t.Helper()
	all := Findings(t, db, mappings...)
	for _, f := range all {
		if f.Severity == s && f.Field == field && strings.Contains(f.Text, text) {
			return
		}
	}
	t.Errorf("no %s about %s: %s in\n%s", s, field, text, Listing(all))
}

// NotFound asserts that Check finds nothing with that text about that field.
func NotFound(t *testing.T, db *sql.DB, field, text string, mappings ...mapping.Mapping) {
	t.Helper()
	for _, f := range Findings(t, db, mappings...) {
		if f.Field == field && strings.Contains(f.Text, text) {
			t.Errorf("found %+v", f)
		}
	}
}

// Listing writes findings, a line each.
func Listing(all []advice.Finding) string {
	var b strings.Builder
	for _, f := range all {
		b.WriteString("  " + string(f.Severity) + " " + f.Queue + " " + f.Field + ": " + f.Text + " (" + f.Advice + ")\n")
	}
	return b.String()
}

// OnMariaDB makes a fresh database on a MariaDB server, and opens it as a program does that knows nothing of dibs.
func OnMariaDB(t *testing.T) (db *sql.DB, address string) {
	t.Helper()
	address = mytest.Address(t)
	db, err := sql.Open("mysql", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, address
}
