package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	_ "github.com/jackc/pgx/v5/stdlib" // reads the database without dibs
)

// The demo runs with few jobs, as a user would run it. It leaves nothing in the database.
func TestDemoKeepsEveryPromiseAndCleansUp(t *testing.T) {
	needs.Long(t)
	onEach(t, func(c *cli) {
		if strings.HasPrefix(c.DB, "sqlite:") {
			needs.Night(c.T, "the README's demo is TestARealRunWithAKilledProcessKeepsEveryPromise, on SQLite")
		}
		demoKeepsEveryPromise(c)
	})
}

func TestDemoKeepsEveryPromiseOnMariaDB(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	c := &cli{&clitest.CLI{T: t, DB: mytest.URL(t)}}
	c.OK("migrate")
	demoKeepsEveryPromise(c)
}

func demoKeepsEveryPromise(c *cli) {
	c.T.Helper()
	program, err := os.Executable()
	if err != nil {
		c.T.Fatal(err)
	}
	var before int
	var temp string
	var out []byte
	var v demoVerdictJSON
	for try := 1; ; try++ {
		before, temp, v = tables(c), c.T.TempDir(), demoVerdictJSON{}
		cmd := exec.CommandContext(c.T.Context(), program, "demo", "--db", c.DB, "--jobs", "500", "--json")
		cmd.Env = append(os.Environ(), clitest.AsCommand+"=1", "TMPDIR="+temp)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		var failure error
		out, failure = cmd.Output()
		if err := json.Unmarshal(out, &v); err != nil {
			c.T.Fatalf("dibs demo: %v, %v\n%s%s", failure, err, out, errs.String())
		}
		if failure == nil {
			break
		}
		if try == 10 || !onlyLate(v) {
			c.T.Fatalf("dibs demo: %v\n%s%s", failure, out, errs.String())
		}
	}
	if !v.Kept || v.Jobs != 500 || v.Attempts <= 500 || len(v.Promises) < 13 || v.RecoveryMax == 0 {
		c.T.Errorf("verdict: %s", out)
	}
	if after := tables(c); after != before {
		c.T.Errorf("the demo left tables behind: %d, before it %d", after, before)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		c.T.Errorf("the demo left files behind: %v, %v", left, err)
	}
}

// onlyLate reports whether all that was broken is how soon the killed worker's jobs ran again: a
// machine may be too slow for that.
func onlyLate(v demoVerdictJSON) bool {
	return !slices.ContainsFunc(v.Promises, func(p torture.Row) bool {
		return !p.Kept && (!strings.Contains(p.Text, "run elsewhere within") || p.Got != p.Want)
	})
}

// tables counts the relations and the schemas of the database.
func tables(c *cli) int {
	c.T.Helper()
	driver, source, count := "pgx", c.DB, `select (select count(*) from pg_class where relkind in ('r', 'i', 'v', 'S'))
		+ (select count(*) from pg_namespace where nspname not like 'pg_%')`
	if path, ok := strings.CutPrefix(c.DB, "sqlite:"); ok {
		driver, source, count = "sqlite", path, "select count(*) from sqlite_master"
	}
	if u, err := url.Parse(c.DB); err == nil && u.Scheme == "mysql" {
		driver, source, count = "mysql", "root@tcp("+u.Host+")"+u.Path, "select count(*) from information_schema.tables where table_schema = database()"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		c.T.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(c.T.Context(), count).Scan(&n); err != nil {
		c.T.Fatal(err)
	}
	return n
}

func TestDemoRefuses(t *testing.T) {
	c := onSQLite(t)
	c.Fails(cmdline.ExitUsage, "", []string{"demo", "--jobs", "3"}, "--jobs must be 500 to 100000, got 3", "dibs demo --help")
	c.Fails(cmdline.ExitUsage, "", []string{"demo", "--prefix", "mine_"}, "makes a schema or prefix of its own")
}

func TestADemosVerdictDecidesTheExitCode(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		r := &torture.Result{Demo: &torture.Demo{Jobs: 500, Ends: []torture.Row{{Text: "jobs enqueued", Want: 500, Got: 500, Kept: !broken}}}}
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &bytes.Buffer{})
		err := a.writeDemoVerdict(a.newScreen("dibs demo", "", 0), r, "dibs")
		var code *cmdline.CodeError
		if got := errors.As(err, &code) && code.Code == cmdline.ExitFailure; got != broken {
			t.Errorf("broken: %v, error %v", broken, err)
		}
		if !strings.Contains(out.String(), "jobs enqueued") || strings.Contains(out.String(), "Next") == broken {
			t.Errorf("broken: %v, it says\n%s", broken, &out)
		}
	}
}
