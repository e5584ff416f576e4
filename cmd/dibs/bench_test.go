package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/lab/workload"
	"github.com/dibs-queue/dibs/internal/needs"
)

// The bench runs at a very small scale, as a user would run it. It leaves nothing in the database.
func TestBenchMeasuresEveryWorkloadAndCleansUp(t *testing.T) {
	needs.Long(t)
	onEach(t, func(c *cli) {
		if !strings.HasPrefix(c.DB, "sqlite:") {
			needs.Night(c.T, "the workloads are the same on SQLite")
		}
		untouched := c.untouched()
		temp := c.T.TempDir()
		cmd := c.Command("bench", "--scale", "0.001", "--json")
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
		run := c.Finished(cmd)
		var r benchReport
		if err := json.Unmarshal([]byte(run.Out), &r); err != nil || run.Code != cmdline.ExitOK || strings.Count(run.Err, "\n") != 1 || !strings.HasPrefix(run.Err, "dibs bench: ") {
			c.T.Fatalf("exit code %d, %v\n%s%s", run.Code, err, run.Out, run.Err)
		}
		onSQLite := strings.HasPrefix(c.DB, "sqlite:")
		all := workload.All(&workload.Bench{Scale: 0.001})
		all = slices.DeleteFunc(all, func(w workload.Workload) bool { return w.Postgres && onSQLite })
		if len(r.Workloads) != len(all) {
			c.T.Fatalf("%d workloads, want %d", len(r.Workloads), len(all))
		}
		for i, w := range r.Workloads {
			if w.ID != all[i].ID || w.Name != all[i].Name || len(w.Figures) == 0 {
				c.T.Errorf("%v, want a figure at least of %s, %s", w, all[i].ID, all[i].Name)
				continue
			}
			f := w.Figures[0]
			did := f.Median > 0 || w.ID == "idle" // an idle process may use no tick of the clock
			if len(w.Series) > 0 {                // the first and last parts may be too short for a rate
				did = slices.Max(w.Series[0]) > 0
			}
			if len(f.All) != 1 || !did {
				c.T.Errorf("%s, %s: %v", w.ID, w.Name, f)
			}
		}
		durability := "fsync"
		if onSQLite {
			durability = "synchronous"
		}
		if r.Interrupted || r.Dibs == "" || r.Machine["cores"] == "" || r.Server["server_version"] == "" || r.Server[durability] == "" {
			c.T.Errorf("it does not say what the figures depend on: %s", run.Out)
		}
		untouched()
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			c.T.Errorf("the bench left files behind: %v, %v", left, err)
		}
	})
}

// untouched records the contents of the database, and returns a function that fails if they
// have changed. A SQLite file must not even be opened.
func (c *cli) untouched() func() {
	c.T.Helper()
	path, onSQLite := strings.CutPrefix(c.DB, "sqlite:")
	look := func() (n int, names []string, file []byte) {
		if !onSQLite {
			return tables(c), nil, nil
		}
		var err error
		if names, err = filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err == nil {
			file, err = os.ReadFile(path)
		}
		if err != nil {
			c.T.Fatal(err)
		}
		return 0, names, file
	}
	n, names, file := look()
	return func() {
		c.T.Helper()
		nowN, nowNames, nowFile := look()
		if nowN != n || !slices.Equal(nowNames, names) || !bytes.Equal(nowFile, file) {
			c.T.Errorf("something was left behind, or touched: %d tables and schemas, before it %d; files %q, before it %q", nowN, n, nowNames, names)
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	c := onSQLite(t)
	for _, test := range []struct{ args, says string }{
		{"--workload W99", `--workload: there is no workload "W99"`},
		{"--workload W1,", `--workload: there is no workload ""`},
		{"--workload=", "--workload is empty"},
		{"--workload W1,w5", "--workload: w5 is for PostgreSQL only"},
		{"--rounds 0", "--rounds must be 1 to 100, got 0"},
		{"--rounds often", `--rounds: "often" is no whole number`},
		{"--scale 0", "--scale must be 0.001 to 10, got 0"},
		{"--scale NaN", "--scale must be 0.001 to 10, got NaN"},
		{"--pool 3", "--pool must be 4 to 1000, got 3"},
		{"--schema mine", "leave out --schema and --prefix"},
		{"--db=", "--db is empty"},
		{"--db oracle://localhost/mine", "unknown kind of database"},
		{"--db sqlite:no/such/folder/my.db", "there is no folder no/such/folder"},
		{"W3", "unknown command"},
	} {
		c.Fails(cmdline.ExitUsage, "", append([]string{"bench"}, strings.Fields(test.args)...), test.says)
	}
}

func TestBenchNeedsEnoughConnections(t *testing.T) {
	onEach(t, func(c *cli) {
		if strings.HasPrefix(c.DB, "sqlite:") {
			return // SQLite has no connections
		}
		untouched := c.untouched()
		c.Fails(cmdline.ExitFailure, "", []string{"bench", "--workload", "W3", "--pool", "1000"}, "W3 needs about 1007 connections", "max_connections", "--pool")
		untouched()
	})
}

func TestBenchListsItsWorkloads(t *testing.T) {
	c := onSQLite(t)
	text := c.OK("bench", "--list")
	rows := c.Rows(c.OK("bench", "--list", "--json"))
	all := workload.All(&workload.Bench{Scale: 1})
	if len(rows) != len(all) {
		t.Fatalf("%d workloads, want %d", len(rows), len(all))
	}
	for i, w := range all {
		c.Has(rows[i], object{"id": w.ID, "name": w.Name, "postgres_only": w.Postgres})
		if takes, ok := rows[i]["takes"].(float64); !ok || takes < 1 || !strings.Contains(text, w.ID) || !strings.Contains(text, w.Name) {
			t.Errorf("%s takes %v s, in %s", w.ID, rows[i]["takes"], text)
		}
	}
}

func TestBenchShows(t *testing.T) {
	t.Parallel()
	a := newApp(strings.NewReader(""), &strings.Builder{}, &strings.Builder{})
	a.Width = 80
	r := &benchReport{
		Dibs: "v1.0.0", Database: "PostgreSQL", Rounds: 3, Scale: 1, Pool: 16, Handlers: benchHandlers,
		machine: []workload.Fact{{Name: "cores", Value: "2"}, {Name: "processor", Value: "one with a name that is rather long"}, {Name: "memory", Value: "23.5 GiB"}},
		server:  []workload.Fact{{Name: "fsync", Value: "on"}, {Name: "server_version", Value: "15.18"}},
	}
	rows := []workload.Row{{Key: "rate", Name: "rate", Unit: "jobs/s"}, {Key: "server", Name: "server CPU", Unit: "us/job"}, {Key: "ratio", Name: "last : first"}}
	var runs []workload.Measured
	for i := range 3 { // simulates a server on another machine
		runs = append(runs, workload.Measured{Figures: map[string]float64{"rate": float64(60_000 + 1000*i), "ratio": 0.95}})
	}
	r.add(workload.Workload{ID: "W3", Name: "drain 100,000 jobs", Rows: rows}, runs)
	r.add(workload.Workload{ID: "W4", Name: "enqueue to start", Rows: []workload.Row{{Key: "p50", Name: "p50", Unit: "ms"}}}, []workload.Measured{{Figures: map[string]float64{"p50": 1.19}}})
	golden.Match(t, "bench/report.txt", a.benchText(r))
}

func TestBenchBarFitsAndComesToItsEnd(t *testing.T) {
	t.Parallel()
	a := newApp(strings.NewReader(""), &strings.Builder{}, &strings.Builder{})
	list := workload.All(&workload.Bench{Scale: 1})
	s := a.newBenchScreen("SQLite", list, &benchOptions{rounds: 1, scale: 1})
	if got := s.line(time.Now()); !strings.Contains(got, "  0 %") {
		t.Errorf("before it began: %s", got)
	}
	for _, w := range list {
		s.begin(w)
		line := term.Clip(s.line(s.begun), 79)
		if lipgloss.Width(line) > 79 || !strings.Contains(line, w.ID) {
			t.Errorf("%d columns: %s", lipgloss.Width(line), line)
		}
	}
	if got := s.line(s.begun.Add(time.Hour)); !strings.Contains(got, "100 %  about 0s left") {
		t.Errorf("an hour after the last began: %s", got)
	}
}
