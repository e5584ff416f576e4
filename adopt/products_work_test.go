package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/needs"
)

// onSQLite matches the lines of a mapping's last comment, which say what differs on SQLite.
var onSQLite = regexp.MustCompile(`(?m)^#   (([a-z_]+): .+)$`)

// ready is the mapping of a product's table in examples/mappings.
func (p product) ready(t *testing.T, kind string) mapping.Mapping {
	t.Helper()
	all, err := filepath.Glob("../examples/mappings/*.yaml")
	if err != nil || len(all) != len(products) {
		t.Fatalf("there are %d mappings and %d products, %v", len(all), len(products), err)
	}
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if !strings.Contains(text, "\ntable: "+p.table+"\n") {
			continue
		}
		for _, change := range onSQLite.FindAllStringSubmatch(text, -1) {
			if kind == "sqlite" {
				text = regexp.MustCompile(`(?m)^`+change[2]+`: .*\n`).ReplaceAllString(text, "") + change[1] + "\n"
			}
		}
		m, err := mapping.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return m
	}
	t.Fatalf("no mapping is of %s", p.table)
	return mapping.Mapping{}
}

// The mappings in examples pass the check. Workers run each row that waits and is due exactly once, and touch no
// other: none that the product's own workers have, that has ended, or whose time has not come.
func TestTheMappingsOfProductsWork(t *testing.T) {
	needs.Race(t)
	onProducts(t, func(t *testing.T, db *sql.DB, kind string, p product) {
		m := p.ready(t, kind)
		for _, f := range findings(t, db, m) {
			if f.Severity == advice.SeverityError {
				t.Errorf("%+v", f)
			}
		}
		if _, err := advice.Ended(t.Context(), opened(t, db, m)); err != nil {
			t.Errorf("rows that have ended cannot be counted: %v", err)
		}
		next, err := advice.Try(t.Context(), db, m, 100)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, j := range next {
			order = append(order, keyOf(j))
		}
		if !slices.Equal(order, p.due) {
			t.Errorf("claims take %q in this order, want %q", order, p.due)
		}
		work := slices.Concat(p.due, p.behind)
		before := p.rows(t, db, kind, m, work)
		ran := p.work(t, db, m, len(work))
		slices.Sort(ran)
		if want := slices.Sorted(slices.Values(work)); !slices.Equal(ran, want) {
			t.Errorf("ran %q, want %q", ran, want)
		}
		if after := p.rows(t, db, kind, m, work); after != before {
			t.Errorf("other rows have changed:\n%s\nwere:\n%s", after, before)
		}
		var left int
		query := fmt.Sprintf("select count(*) from %s t where cast(%s as %s) in ('%s') and (%s)", p.table, m.ID[0], textOf(kind), strings.Join(work, "', '"), m.Unfinished)
		if err := db.QueryRow(query).Scan(&left); err != nil || left > 0 {
			t.Errorf("%d rows are unfinished, %v", left, err)
		}
	})
}

// rows are all rows but those with these ids, as text.
func (p product) rows(t *testing.T, db *sql.DB, kind string, m mapping.Mapping, but []string) string {
	t.Helper()
	all, err := adopted.QueryAll(t.Context(), db, fmt.Sprintf("select * from %s where not cast(%s as %s) in ('%s') order by 1", p.table, m.ID[0], textOf(kind), strings.Join(but, "', '")))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%q", all)
}

// work has two workers run rows until n have run and a claim finds no more. It returns the ids of all that ran.
func (p product) work(t *testing.T, db *sql.DB, m mapping.Mapping, n int) (ran []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 2 {
		s := open(t, db, m)
		w := &dibs.Worker{Name: fmt.Sprint("w", i), Store: s, Queue: s.Queue(), Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
		w.HandleRaw("", func(_ context.Context, j *dibs.RawJob) error {
			mu.Lock()
			defer mu.Unlock()
			if ran = append(ran, keyOf(j)); len(ran) == n {
				cancel()
			}
			return nil
		})
		all.Go(func() {
			if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if left := claim(t, open(t, db, m), 100); len(left) > 0 {
		t.Errorf("row %s is claimed once more", keyOf(left[0]))
	}
	return ran
}

func keyOf(j *dibs.RawJob) string {
	if j.Key != "" {
		return j.Key
	}
	return fmt.Sprint(j.ID)
}
