package adopt_test

import (
	"database/sql"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/golden"
)

// The files of testdata/answers hold what the advice says of each table, so that a change of one word shows there.

// masks replace what differs from run to run.
var masks = []struct {
	found *regexp.Regexp
	put   string
}{
	{regexp.MustCompile(`\d+\.\d\d ms`), "N ms"},
	{regexp.MustCompile(`reads \d+ rows`), "reads N rows"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\b1\d{9,12}\b`), "UNIX"},
	{regexp.MustCompile(`dibs_test_[a-z0-9]{26}`), "shop"},
}

// answers compares text with the file of a table and a database.
func answers(t *testing.T, name, kind string, parts ...string) {
	t.Helper()
	text := strings.Join(parts, "\n")
	for _, m := range masks {
		text = m.found.ReplaceAllString(text, m.put)
	}
	golden.Match(t, filepath.Join("answers", name+"."+kind+".txt"), text)
}

func kindIf(pg bool) string {
	if pg {
		return "postgres"
	}
	return "sqlite"
}

// The five tables and the strange ones, a third of whose rows another program has ended.
func TestAnswersAboutTables(t *testing.T) {
	for _, o := range slices.Concat(fiveTables, strangeTables) {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			onEvery(t, func(t *testing.T, driver, dsn string) {
				if o.pgOnly && driver != "pgx" {
					return
				}
				f := &fleet{owned: o, rows: 60}
				f.make(t, driver, dsn)
				for i, id := range slices.Sorted(maps.Keys(f.ranks(t))) {
					if i%3 == 0 {
						statement(t, f.db, f.byHand, id)
					}
				}
				m, text := proposed(t, f.db, f.m.Table)
				answers(t, o.name, f.kind, text, "check of the proposal:", listing(findings(t, f.db, m)), "check of its mapping:", listing(findings(t, f.db, f.m)))
			})
		})
	}
}

func TestAnswersAboutProducts(t *testing.T) {
	onProducts(t, func(t *testing.T, db *sql.DB, kind string, p product) {
		m, _ := proposed(t, db, p.table)
		answers(t, p.name, kind, "check of the proposal:", listing(findings(t, db, m)))
	})
}

// One table with mappings of every degree of safety, and with rows in states that are wrong.
func TestAnswersAboutMappings(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		exec(t, db, "alter table orders add mark varchar(40)")
		exec(t, db, "alter table orders add until timestamp")
		var parts []string
		for _, c := range []struct {
			name   string
			change func(*mapping.Mapping)
		}{
			{"as it is", func(*mapping.Mapping) {}},
			{"token", func(m *mapping.Mapping) { m.Claim.Token = "mark" }},
			{"timeout", func(m *mapping.Mapping) { m.Claim.StartedAt, m.Claim.Timeout = "", "until" }},
			{"local times", func(m *mapping.Mapping) {
				if m.Claim.Timeout = "until"; pg {
					m.Times = mapping.TimesLocal
				}
			}},
			{"worker and start", func(m *mapping.Mapping) { m.Claim.Attempts = "" }},
			{"worker", func(m *mapping.Mapping) { m.Claim.Attempts, m.Claim.StartedAt = "", "" }},
			{"row locks", func(m *mapping.Mapping) { m.Claim, m.PutBack = mapping.Claim{}, mapping.Change{} }},
			{"side table", func(m *mapping.Mapping) {
				m.SideTable, m.Claim, m.Available, m.PutBack = true, mapping.Claim{}, "", mapping.Change{}
			}},
			{"side table with a status", func(m *mapping.Mapping) { m.SideTable, m.Claim.Attempts, m.Claim.StartedAt = true, "", "" }},
			{"side table with a start", func(m *mapping.Mapping) { m.SideTable = true }},
			{"attempts and the dead", func(m *mapping.Mapping) {
				m.MaxAttempts, m.Kind, m.Where = 3, "note", "amount > 1"
				m.Dead = &mapping.Change{Set: mapping.Set{"ended_at": "$now", "status": "failed", "note": "$error"}}
			}},
			{"the dead are deleted", func(m *mapping.Mapping) { m.MaxAttempts, m.Dead = 2, &mapping.Change{Delete: true} }},
			{"running", func(m *mapping.Mapping) { m.Running = "status = 'working' or id = 3" }},
			{"not before", func(m *mapping.Mapping) { m.NotBefore, m.Order = "until", nil }},
		} {
			of := changed(m, c.change)
			before := listing(findings(t, db, of))
			exec(t, db, `insert into orders (id, status, amount, tries, started_at, ended_at, until) values (4, 'working', 1, 1, null, null, null), (5, 'working', 5, 1, '2026-01-31 10:00:00', null, '2026-01-31 10:00:00'),
				(6, 'done', 6, 1, null, '2026-01-31 10:00:00', null), (7, 'failed', 7, 1, null, '2026-01-31 10:00:00', null), (8, 'new', 8, 9, null, null, null), (9, 'new', null, 0, '2999-01-01 00:00:00', null, '2999-01-01 00:00:00')`)
			after := listing(findings(t, db, of))
			text, err := advice.SQL(t.Context(), db, of, 1)
			if err != nil {
				t.Fatal(err)
			}
			text, _, _ = strings.Cut(text, "\n-- == ")
			exec(t, db, "delete from orders where id > 3")
			parts = append(parts, "== "+c.name+" ==", "check:", before, "check with rows in odd states:", after, "sql:", text)
		}
		answers(t, "orders", kindIf(pg), parts...)
	})
}

// Rows that no claim takes: by conditions that are null or false for them, dead in the side table, without an id.
func TestAnswersAboutRowsThatNobodyTakes(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		exec(t, db, "insert into orders (id, status, amount) values (4, 'odd', 4), (5, 'new', null)")
		m.Unfinished, m.Available, m.PutBack.Set["status"] = "amount > 0 and ended_at is null", "nullif(status, 'odd') = 'new'", "new"
		conditions := listing(findings(t, db, m))

		m.SideTable, m.Claim, m.Available, m.PutBack = true, mapping.Claim{}, "", mapping.Change{}
		s := open(t, db, m)
		job := claim(t, s, 1)[0]
		if err := s.Finish(t.Context(), []dibs.Outcome{{ID: job.ID, Token: job.Token, Ending: dibs.EndDead, Error: "an error"}}); err != nil {
			t.Fatal(err)
		}
		dead := listing(findings(t, db, m))

		m.Table, m.ID, m.Order, m.Unfinished, m.Completed.Set = "parcels", mapping.Columns{"code"}, nil, "done = 0", mapping.Set{"done": 1}
		exec(t, db, "create table parcels (code varchar(20) primary key, done int not null default 0)")
		exec(t, db, "insert into parcels (code) values ('a')")
		if !pg { // a primary key of SQLite may be null
			exec(t, db, "insert into parcels (code) values (null)")
		}
		answers(t, "nobody", kindIf(pg), "conditions:", conditions, "dead in the side table:", dead, "without an id:", listing(findings(t, db, m)))
	})
}

// A sentence that is added to the tables of findings must stand in a file of testdata/answers, too.
func TestEveryFindingHasAnAnswer(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/answers/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	source, err := parser.ParseFile(token.NewFileSet(), "advice/findings.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	gap, sentences := regexp.MustCompile(`\{n\}|%(\[\d\])?[a-z]`), 0 // what a value replaces
	ast.Inspect(source, func(n ast.Node) bool {
		if _, imports := n.(*ast.ImportSpec); imports {
			return false
		}
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || len(lit.Value) < 40 {
			return true
		}
		sentences++
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range gap.Split(text, -1) {
			if !strings.Contains(all, part) {
				t.Errorf("no file of testdata/answers has %q: add a case that meets its conditions", part)
			}
		}
		return true
	})
	if sentences < 40 {
		t.Errorf("only %d sentences were found", sentences)
	}
}
