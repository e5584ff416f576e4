package adopted

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// everyPair matches a plan that compares each row of one input with each row of another.
var everyPair = regexp.MustCompile(`Nested Loop [^\n]*\n *Join Filter: `)

// Statistics from before a large insert, when every row had ended, say that no row is
// unfinished. A statement planned by them compares each row of a batch with each unfinished
// row: to finish 10,000 rows then takes 20 s.
func TestStaleStatisticsDoNotMultiplyABatch(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, sql := range []string{
		`create table work (id bigint primary key, status text, token text) with (autovacuum_enabled = off)`,
		`insert into work select n, 'done' from generate_series(1, 5000) n`,
		`analyze work`,
		`update work set status = null`,
	} {
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	side := mapping.Mapping{
		Table: "work", ID: mapping.Columns{"id"}, Rows: mapping.Rows{Unfinished: "status is null"},
		Completed: mapping.Change{Set: mapping.Set{"status": "done"}}, SideTable: true,
	}
	token := side
	token.SideTable, token.Available, token.Claim.Token = false, "token is null", "token"
	seen := 0
	for _, c := range []struct {
		name string
		m    mapping.Mapping
		sql  string
	}{
		{"token", token, ""},
		{"side table", side, ""},
		{"token, with an index", token, "create index on work (id) where status is null"},
		{"side table, with an index", side, ""},
	} {
		if _, err := db.ExecContext(t.Context(), c.sql); err != nil {
			t.Fatal(err)
		}
		p, err := Prepare(t.Context(), db, c.m)
		if err != nil {
			t.Fatal(err)
		}
		if c.m.SideTable {
			if err := p.MakeSideTable(t.Context(), db); err != nil { // the table may exist already
				t.Fatal(err)
			}
		}
		for verb, st := range p.Do.All() {
			if !slices.Contains(st.Params, "batch") && verb != "lease_forget" {
				continue
			}
			seen++
			if plan := explained(t, db, st); everyPair.MatchString(plan) {
				t.Errorf("%s, %s:\n%s", c.name, verb, plan)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d statements take batches", seen)
	}
}

// explained returns the plan of a statement.
func explained(t *testing.T, db *sql.DB, st *Statement) string {
	t.Helper()
	text := st.Text
	for i, name := range slices.Backward(st.Params) {
		value := map[string]string{"batch": "'[]'", "micros": "1", "lease": "1", "token": "'a'", "worker": "'w'", "n": "1"}[name]
		text = strings.ReplaceAll(text, fmt.Sprintf("$%d", i+1), value)
	}
	rows, err := db.QueryContext(t.Context(), "explain "+text)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
