package adopt_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// product is the queue table of another product: testdata/products/NAME.sql makes it, with rows in all states that the
// product leaves.
type product struct {
	name, table string
	pgOnly      bool
	maria       bool     // testdata/products/NAME.mariadb.sql makes it on MariaDB
	due         []string // ids of the rows that wait and are due, in the order of claims
	behind      []string // ids of rows that are due once another of their group has ended
	blocked     []string // ids of rows whose group has a row that the product's worker runs
}

var products = []product{
	{name: "laravel", table: "jobs", maria: true, due: []string{"1", "3", "6"}},
	{name: "delayed_job", table: "delayed_jobs", maria: true, due: []string{"5", "1", "6"}},
	{name: "django_q", table: "django_q_ormq", due: []string{"1", "3"}},
	{name: "good_job", table: "good_jobs", pgOnly: true, due: []string{"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000006"}},
	{name: "oban", table: "oban_jobs", pgOnly: true, due: []string{"1", "9", "5"}},
	{name: "hangfire", table: "hangfire.jobqueue", pgOnly: true, due: []string{"1", "3"}},
	{name: "magento", table: "cron_schedule", maria: true, due: []string{"5", "6"}, blocked: []string{"8"}},
	{name: "action_scheduler", table: "wp_actionscheduler_actions", maria: true, due: []string{"6", "7"}},
	{name: "outbox", table: "outbox", due: []string{"3", "5"}, behind: []string{"4"}},
	{name: "messenger", table: "messenger_messages", maria: true, due: []string{"1", "5"}},
}

var marks = regexp.MustCompile(`\{([a-z]+)(?: (-?\d+))?\}`)

// fill makes a product's table. In its file a mark in braces stands for a type, or with seconds for that time from now.
func (p product) fill(t *testing.T, db *sql.DB, kind string) {
	t.Helper()
	name := p.name + ".sql"
	if kind == "mariadb" {
		name = p.name + ".mariadb.sql"
	}
	text, err := os.ReadFile(filepath.Join("testdata", "products", name))
	if err != nil {
		t.Fatal(err)
	}
	types := map[string][2]string{
		"serial": {"integer primary key", "bigserial primary key"}, "json": {"text", "jsonb"},
		"rails": {"datetime(6)", "timestamp(6)"}, "utc": {"datetime", "timestamp"}, "seconds": {"datetime", "timestamp(0)"}, "django": {"datetime", "timestamptz"}, "tz": {"datetime", "timestamptz"},
	}
	times := map[string][3]string{
		"unix":    {"(unixepoch() + %s)", "(extract(epoch from now())::integer + %s)", "(unix_timestamp() + %s)"},
		"rails":   {"(strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '%s seconds') || '000')", "((now() at time zone 'utc') + interval '%s s')", "(utc_timestamp(6) + interval %s second)"},
		"django":  {"(strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '%s seconds') || '000')", "(now() + interval '%s s')", ""},
		"utc":     {"strftime('%%Y-%%m-%%d %%H:%%M:%%S', 'now', '%s seconds')", "((now() at time zone 'utc') + interval '%s s')", "(utc_timestamp(6) + interval %s second)"},
		"seconds": {"strftime('%%Y-%%m-%%d %%H:%%M:%%S', 'now', '%s seconds')", "((now() at time zone 'utc') + interval '%s s')", "(utc_timestamp(6) + interval %s second)"},
		"tz":      {"strftime('%%Y-%%m-%%d %%H:%%M:%%S', 'now', '%s seconds')", "(now() + interval '%s s')", "(now() + interval %s second)"},
	}
	at := slices.Index([]string{"sqlite", "postgres", "mariadb"}, kind)
	exec(t, db, marks.ReplaceAllStringFunc(string(text), func(mark string) string {
		m := marks.FindStringSubmatch(mark)
		if m[2] == "" {
			return types[m[1]][at]
		}
		return fmt.Sprintf(times[m[1]][at], m[2])
	}))
}

// onProducts runs a test with each product's table, on each database that has it.
func onProducts(t *testing.T, f func(t *testing.T, db *sql.DB, kind string, p product)) {
	t.Helper()
	t.Parallel()
	for _, p := range products {
		t.Run(p.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				if pg || !p.pgOnly {
					p.fill(t, db, kindIf(pg))
					f(t, db, kindIf(pg), p)
				}
			})
			if p.maria {
				t.Run("mariadb", func(t *testing.T) {
					db, err := sql.Open("mysql", mytest.Address(t)+"?multiStatements=true&sql_mode=%27NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES%27")
					if err != nil {
						t.Fatal(err)
					}
					defer db.Close()
					p.fill(t, db, "mariadb")
					f(t, db, "mariadb", p)
				})
			}
		})
	}
}

// The mapping that is proposed for a product's table takes no row that another worker has, or that has ended. What it is
// not sure of stands in the files of testdata/products.
func TestProposalsForProductsTakeNoRowOfOthers(t *testing.T) {
	onProducts(t, func(t *testing.T, db *sql.DB, kind string, p product) {
		m, text := proposed(t, db, p.table)
		golden.Match(t, filepath.Join("products", p.name+"."+kind+".yaml"), text)
		jobs, err := advice.Try(t.Context(), db, m, 100)
		if err != nil {
			t.Logf("it cannot be used as it is: %v", err)
		}
		for _, j := range jobs {
			id := keyOf(j)
			if !slices.Contains(slices.Concat(p.due, p.behind, p.blocked), id) && !strings.Contains(text, "several queues") {
				t.Errorf("row %s would be claimed, which is not due", id)
			}
		}
	})
}
