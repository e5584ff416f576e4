package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/dibs-queue/dibs/internal/pgtest"
)

// TestMain lets the test program be the processes that workloads start.
func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := serve(context.Background(), text); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// TestEveryWorkloadGivesEveryFigure runs all of them at a thousandth of their size,
// draws the results, and finds no empty place in the table.
func TestEveryWorkloadGivesEveryFigure(t *testing.T) {
	server := os.Getenv(pgtest.EnvServer)
	if server == "" {
		s, err := launch(t.Context(), os.Getenv(pgtest.EnvBin), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		server = s.URL()
	}
	dir := t.TempDir()
	var out bytes.Buffer
	args := []string{"--db", server, "--dir", dir, "--scale", "0.001", "--rounds", "1", "--handlers", "100", "--json"}
	if err := run(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	all := workloads()
	if len(r.Workloads) != len(all) {
		t.Fatalf("%d workloads, want %d", len(r.Workloads), len(all))
	}
	for i, w := range r.Workloads {
		for _, c := range all[i].contenders {
			main := w.Rows[0]
			if s, ok := main.By[c.name]; !ok || len(s.All) != 1 || (s.Median <= 0 && w.ID != "idle") {
				t.Errorf("%s, %s: %s has %v as its %s", w.ID, w.Name, c.name, s, main.Name)
			}
		}
	}
	path := filepath.Join(dir, "results.json")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := plot(path, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w5.svg", "w6.svg"} {
		picture, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(picture, []byte("</svg>")) || bytes.Contains(picture, []byte("NaN")) {
			t.Errorf("%s: %v\n%s", name, err, picture)
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.500", 0.01234: "0.012", 1.234: "1.23", 45.67: "45.7", 456.7: "457", 4567: "4567", 45_678: "45.7k", 456_789: "457k"} {
		if got := short(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestSpreadOfRounds(t *testing.T) {
	if s := newSpread([]float64{3, 1, 2}); s.Median != 2 || s.Min != 1 || s.Max != 3 {
		t.Error(s)
	}
	if s := newSpread([]float64{4, 1, 2, 3}); s.Median != 2.5 {
		t.Error(s)
	}
}

func TestThePayloadIsTheSameForAll(t *testing.T) {
	text, err := json.Marshal(letter)
	if err != nil || string(text) != barePayload {
		t.Errorf("dibs and River get %s, the bare table %s: %v", text, barePayload, err)
	}
	if len(text) != 100 {
		t.Errorf("it has %d bytes", len(text))
	}
}
