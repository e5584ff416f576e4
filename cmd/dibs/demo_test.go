package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/lab/demo"
	"github.com/dibs-queue/dibs/internal/needs"
	_ "github.com/jackc/pgx/v5/stdlib" // reads the database without dibs
)

// The demo runs with few jobs, as a user would run it. It leaves nothing in the database.
func TestDemoKeepsEveryPromiseAndCleansUp(t *testing.T) {
	needs.Long(t)
	onEach(t, func(c *cli) {
		if strings.HasPrefix(c.db, "sqlite:") {
			needs.Night(c.t, "the README's demo is TestARealRunWithAKilledProcessKeepsEveryPromise, on SQLite")
		}
		program, err := os.Executable()
		if err != nil {
			c.t.Fatal(err)
		}
		var before int
		var temp string
		var out []byte
		var v demoVerdictJSON
		for try := 1; ; try++ {
			before, temp, v = tables(c), c.t.TempDir(), demoVerdictJSON{}
			cmd := exec.CommandContext(c.t.Context(), program, "demo", "--db", c.db, "--jobs", "500", "--json")
			cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temp)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			var failure error
			out, failure = cmd.Output()
			if err := json.Unmarshal(out, &v); err != nil {
				c.t.Fatalf("dibs demo: %v, %v\n%s%s", failure, err, out, errs.String())
			}
			if failure == nil {
				break
			}
			if try == 10 || !onlyLate(v) {
				c.t.Fatalf("dibs demo: %v\n%s%s", failure, out, errs.String())
			}
		}
		if !v.Kept || v.Jobs != 500 || v.Attempts <= 500 || len(v.Promises) < 13 || v.RecoveryMax == 0 {
			c.t.Errorf("verdict: %s", out)
		}
		if after := tables(c); after != before {
			c.t.Errorf("the demo left tables behind: %d, before it %d", after, before)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			c.t.Errorf("the demo left files behind: %v, %v", left, err)
		}
	})
}

// onlyLate reports whether all that was broken is how soon the killed worker's jobs ran again: a
// machine may be too slow for that.
func onlyLate(v demoVerdictJSON) bool {
	return !slices.ContainsFunc(v.Promises, func(p demo.Promise) bool {
		return !p.Kept && (!strings.Contains(p.Text, "run elsewhere within") || p.Got != p.Want)
	})
}

// tables counts the relations and the schemas of the database.
func tables(c *cli) int {
	c.t.Helper()
	driver, source, count := "pgx", c.db, `select (select count(*) from pg_class where relkind in ('r', 'i', 'v', 'S'))
		+ (select count(*) from pg_namespace where nspname not like 'pg_%')`
	if path, ok := strings.CutPrefix(c.db, "sqlite:"); ok {
		driver, source, count = "sqlite", path, "select count(*) from sqlite_master"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(c.t.Context(), count).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

func TestDemoRefuses(t *testing.T) {
	c := onSQLite(t)
	c.fails(exitUsage, "", []string{"demo", "--jobs", "3"}, "--jobs must be 500 to 100000, got 3", "dibs demo --help")
	c.fails(exitUsage, "", []string{"demo", "--prefix", "mine_"}, "makes a schema or prefix of its own")
}

func TestDemoShows(t *testing.T) {
	t.Parallel()
	v := &demoView{
		paint: func(_ style, s string) string { return s }, width: 80,
		title: "5,000 jobs · 4 worker processes · a SQLite file of its own",
	}
	p := demo.Progress{
		Jobs: 5000, Elapsed: 8400 * time.Millisecond,
		Stats: dibs.QueueStats{Waiting: 1204, Blocked: 431, Running: 39, Completed: 3294, Dead: 32},
		Workers: []demo.WorkerProgress{
			{Name: "worker-1", Completed: 900, Running: 8},
			{Name: "worker-2", Completed: 890, Running: 7},
			{Name: "worker-3", Completed: 431, Killed: true, Held: 9, Recovered: 4},
			{Name: "worker-4", Completed: 888},
		},
		Events: []demo.Event{{At: 130 * time.Millisecond, Text: "4 worker processes started"}},
	}
	golden.Match(t, "demo/begin.txt", v.draw(demo.Progress{})+"\n")
	golden.Match(t, "demo/middle.txt", v.draw(p)+"\n")
	p.Workers = append(p.Workers, demo.WorkerProgress{Name: "worker-5"})
	p.Events = append(p.Events, make([]demo.Event, 4)...)
	if n := strings.Count(v.draw(p), "\n") + 1; n != demoLines {
		t.Errorf("the picture grew to %d lines, want %d always", n, demoLines)
	}
}

func TestDemoBarsAreFilledToTheEighth(t *testing.T) {
	t.Parallel()
	for part, want := range map[float64]string{
		0: "░░░░", 0.03125: "▏░░░", 0.25: "█░░░", 0.625: "██▌░", 1: "████", 2: "████", -1: "░░░░",
	} {
		if got := bar(unpainted, plain, part, 4); got != want || lipgloss.Width(got) != 4 {
			t.Errorf("bar filled to %v: %q, want %q", part, got, want)
		}
	}
}

func TestDemoVerdictIsWrittenAndDecidesTheExitCode(t *testing.T) {
	t.Parallel()
	good := demo.Result{
		Took: 13500 * time.Millisecond, Attempts: 5409, Jobs: 5000,
		Verdict: demo.Verdict{
			Promises: []demo.Promise{
				{Text: "jobs enqueued", Want: 5000, Got: 5000, Kept: true},
				{Text: "two workers on one job at once", Checked: 21636, Kept: true},
			},
			Recovery: []time.Duration{2900 * time.Millisecond, 3 * time.Second, 3400 * time.Millisecond},
			Waits:    []demo.Wait{{Priority: 0, Average: 1200 * time.Millisecond}, {Priority: 100, Average: 7 * time.Second}},
		},
	}
	bad := good
	bad.Promises = []demo.Promise{
		{Text: "jobs enqueued", Want: 5000, Got: 5000, Kept: true},
		{Text: "two workers on one job at once", Got: 1, Checked: 21636, Broken: []string{"job 7 was claimed by worker-1 (attempt 2) while it belonged to worker-2 (attempt 1): it had two owners"}},
	}
	for name, r := range map[string]demo.Result{"kept": good, "broken": bad} {
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &bytes.Buffer{})
		err := a.writeDemoVerdict(r, "/tmp/go-build1/exe/dibs")
		var code *codeError
		if broken := errors.As(err, &code) && code.code == exitFailure; broken != (name == "broken") {
			t.Errorf("%s: error %v", name, err)
		}
		golden.Match(t, "demo/"+name+".txt", out.String())
	}
}
