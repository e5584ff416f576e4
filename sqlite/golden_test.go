package sqlite_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

var parameter = regexp.MustCompile(`\?(\d+)`)

// TestQueryPlans pins how SQLite runs each statement: which index it walks, and that
// it sorts nothing that grows with the table.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	golden.Match(t, "plans.txt", plans(t, s))
}

// reading matches plans that read a growing table from end to end.
var reading = regexp.MustCompile(`SCAN (dibs_job|dibs_finished|j|f)\b`)

// Whether SQLite's statistics were gathered when the file was empty, held one job or many,
// only the statements of Check read a whole table of jobs.
func TestQueryPlansWithStatistics(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	look := func(situation string) {
		t.Helper()
		name := ""
		for line := range strings.Lines(plans(t, openAt(t, path, sqlite.Options{}))) { // a connection reads statistics once
			if !strings.HasPrefix(line, " ") {
				name = strings.TrimSpace(line)
			}
			if name != "check" && name != "repairable" && name != "texts" && reading.MatchString(line) {
				t.Errorf("%s: %s: %s", situation, name, strings.TrimSpace(line))
			}
		}
	}
	fill := func(n int) {
		t.Helper()
		jobs := make([]dibs.NewJob, n)
		for i := range jobs {
			jobs[i] = dibs.NewJob{Queue: []string{"q", "r"}[i%2], Kind: "k"}
			if i%3 == 0 {
				jobs[i].Group = fmt.Sprint("g", i%30)
			}
		}
		added, err := s.Enqueue(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}
		ended := make([]int64, 0, n/4)
		for _, e := range added[:n/4] {
			ended = append(ended, e.ID)
		}
		if _, _, err := s.Cancel(t.Context(), ended); err != nil {
			t.Fatal(err)
		}
	}
	analyze := func() {
		t.Helper()
		if _, err := s.DB().ExecContext(t.Context(), "analyze"); err != nil {
			t.Fatal(err)
		}
	}
	analyze()
	look("empty, analyzed")
	fill(1)
	look("one job, analyzed when empty")
	analyze()
	look("one job, analyzed")
	fill(10_000)
	look("10,000 jobs, analyzed with one")
	analyze()
	look("10,000 jobs, analyzed")
}

// plans lists the plan of each statement.
func plans(t *testing.T, s *sqlite.Store) string {
	t.Helper()
	names := s.StatementNames()
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		text := s.Statement(name)
		count := 0
		for _, m := range parameter.FindAllStringSubmatch(text, -1) {
			var n int
			if _, err := fmt.Sscan(m[1], &n); err != nil {
				t.Fatal(err)
			}
			count = max(count, n)
		}
		count = max(count, strings.Count(text, "?")) // parameters may have no numbers
		rows, err := s.DB().QueryContext(t.Context(), "explain query plan "+text, make([]any, count)...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fmt.Fprintf(&out, "%s\n", name)
		depth := map[int]int{}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			depth[id] = depth[parent] + 1
			fmt.Fprintf(&out, "%s%s\n", strings.Repeat("  ", depth[id]), detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestSchema pins the sum of the migrations.
func TestSchema(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	rows, err := s.DB().QueryContext(t.Context(), "select sql from sqlite_schema where sql is not null and name not like 'sqlite!_%' escape '!' order by type desc, name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // it only reads
	var out strings.Builder
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s;\n\n", text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	golden.Match(t, "schema.sql", out.String())
}

// TestMigrationsAsText makes the same schema as Open.
func TestMigrationsAsText(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/jobs.db"
	empty := openAt(t, path, sqlite.Options{Prefix: "unused_"})
	text, err := sqlite.Migrations(sqlite.Options{Prefix: "mine_"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := empty.DB().ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, sqlite.Options{Prefix: "mine_"})
	if _, err := s.Queues(t.Context()); err != nil {
		t.Error(err)
	}
}
