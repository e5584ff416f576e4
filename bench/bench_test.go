package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/lab/workload"
	"github.com/dibs-queue/dibs/internal/needs"
)

// TestMain lets the test program be the processes that workloads start.
func TestMain(m *testing.M) {
	if os.Getenv(workload.OrderEnv) != "" {
		if err := start(context.Background(), nil); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// TestEveryWorkloadGivesEveryFigure runs all workloads at a thousandth of their size,
// plots the results, and finds no empty cell in the table.
func TestEveryWorkloadGivesEveryFigure(t *testing.T) {
	needs.Night(t, "nothing but benchmarks depends on it")
	server := os.Getenv(pgtest.EnvServer)
	if server == "" {
		s, err := launch(t.Context(), os.Getenv(pgtest.EnvBin), "")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		server = s.URL()
	}
	dir := t.TempDir()
	var out bytes.Buffer
	profile := filepath.Join(dir, "cpu")
	args := []string{"--waits", "--cpuprofile", profile, "--db", server, "--dir", dir, "--scale", "0.001", "--rounds", "1", "--handlers", "100", "--json"}
	if err := run(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	all := (&bench{Bench: workload.Bench{Scale: 0.001}}).comparisons()
	if len(r.Workloads) != len(all) {
		t.Fatalf("%d workloads, want %d", len(r.Workloads), len(all))
	}
	for i, w := range r.Workloads {
		if w.ID == "W3" && all[i].waits != nil && len(w.Waits) == 0 {
			t.Error("the results of W3 have no samples of the server's processes")
		}
		for _, c := range all[i].contenders {
			main := w.Rows[0]
			s, ok := main.By[c.name]
			did := s.Median > 0 || w.ID == "idle"
			if series := w.Series[c.name]; len(series) > 0 { // the last parts may be too short for a rate
				did = slices.Max(series[0]) > 0
			}
			if !ok || len(s.All) != 1 || !did {
				t.Errorf("%s, %s: %s has %v as its %s", w.ID, w.Name, c.name, s, main.Name)
			}
		}
	}
	if info, err := os.Stat(profile + ".1"); err != nil || info.Size() == 0 {
		t.Errorf("no profile: %v", err)
	}
	path := filepath.Join(dir, "results.json")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	if err := errors.Join(plot(path, dir), table(&one, []string{path}), table(&two, []string{path, path})); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(one.Bytes(), []byte("| W3 ")); n == 0 || bytes.Count(two.Bytes(), []byte("| W3 ")) != 2*n {
		t.Errorf("the table of a run, and of two:\n%s\n%s", &one, &two)
	}
	for _, name := range []string{"w5.svg", "w5-free.svg", "w6.svg"} {
		picture, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(picture, []byte("</svg>")) || bytes.Contains(picture, []byte("NaN")) {
			t.Errorf("%s: %v\n%s", name, err, picture)
		}
	}
}

// Figures that a noisy machine does not change are marked from 5 % on, CPU from 15 %, rates
// never, and no figure if rounds of the two runs overlap.
func TestARunIsComparedWithAnEarlierOne(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, handlers string, figures map[string][]float64) string {
		w := result{ID: "W3", Name: "drain"}
		for _, key := range slices.Sorted(maps.Keys(figures)) {
			w.Rows = append(w.Rows, figure{Key: key, Name: key, Unit: "u", By: map[string]workload.Spread{"dibs": workload.NewSpread(figures[key])}})
		}
		text, err := json.Marshal(results{Settings: []workload.Fact{{Name: "handlers", Value: handlers}}, Workloads: []result{w, {ID: "W9", Name: name}}})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	three := func(v float64) []float64 { return []float64{v, v, v} }
	before := file("before", "10", map[string][]float64{
		"rate": three(1000), "wal": three(100), "writes": three(20), "allocs": three(100), "server": three(10), "client": three(10),
	})
	after := file("after", "20", map[string][]float64{
		"rate": three(500), "wal": three(106), "writes": {18, 20, 18}, "allocs": three(104), "server": three(11.4), "client": three(12), "new": three(1),
	})
	var out strings.Builder
	if err := compare(&out, before, after); err != nil {
		t.Fatal(err)
	}
	want := `The runs had different settings.

|    | workload | figure    | before | after | change  |      |
|----|----------|-----------|--------|-------|---------|------|
| W3 | drain    | allocs, u | 100    | 104   | +4.0 %  |      |
|    |          | client, u | 10.0   | 12.0  | +20.0 % | MORE |
|    |          | rate, u   | 1000   | 500   | -50.0 % |      |
|    |          | server, u | 10.0   | 11.4  | +14.0 % |      |
|    |          | wal, u    | 100    | 106   | +6.0 %  | MORE |
|    |          | writes, u | 20.0   | 18.0  | -10.0 % |      |
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	other := file("other", "10", nil)
	if err := compare(&out, before, other); err == nil || !strings.Contains(err.Error(), "no workload of the same name") {
		t.Errorf("runs without a common workload are compared: %v", err)
	}
}

func TestThePayloadIsTheSameForAll(t *testing.T) {
	for _, size := range workload.Sizes {
		text, err := json.Marshal(mail{workload.Letter(size)})
		if err != nil || string(text) != barePayload(size) {
			t.Errorf("dibs and River get %s, the bare table %s: %v", text, barePayload(size), err)
		}
		if len(text) != size {
			t.Errorf("the payload of %d bytes has %d", size, len(text))
		}
	}
}
