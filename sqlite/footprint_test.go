package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

func TestLocksTellsWhoWaitsAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	jobs := make([]dibs.NewJob, 5)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "q", Kind: "k", Group: fmt.Sprint(i)}
	}
	if _, err := s.Enqueue(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	before := dump(t, s.DB())
	f, err := s.Locks(t.Context(), "q", 3)
	if err != nil || f.Claimed != 3 || f.Took <= 0 || len(f.Locks) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	for _, o := range f.Others {
		reads := o.What == "stats" || o.What == "list"
		if reads != (o.WaitsFor == "") {
			t.Errorf("%s waits for %q", o.What, o.WaitsFor)
		}
	}
	if dump(t, s.DB()) != before {
		t.Error("looking at the locks has changed the file")
	}
	if got, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 10}); err != nil || len(got) != 5 {
		t.Errorf("%d of 5 jobs can be claimed afterwards: %v", len(got), err)
	}
	if _, err := s.Locks(t.Context(), "none", 1); !errors.Is(err, dibs.ErrUnknownQueue) {
		t.Errorf("a queue that does not exist: %v", err)
	}
	if f, err := s.Locks(t.Context(), "q", 1); err != nil || f.Claimed != 0 {
		t.Errorf("with nothing due: %+v, %v", f, err)
	}
}

// dump is the contents of dibs' tables.
func dump(t *testing.T, db *sql.DB) string {
	t.Helper()
	var b strings.Builder
	for _, table := range names(t, db, "select name from sqlite_schema where type = 'table' and name like 'dibs%' order by name") {
		columns := names(t, db, "select group_concat('quote('||name||')', '||''|''||') from pragma_table_info('"+table+"')")[0]
		for _, row := range names(t, db, "select "+columns+" from "+table+" order by 1") {
			fmt.Fprintln(&b, table, row)
		}
	}
	return b.String()
}

// names reads a column of text.
func names(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
