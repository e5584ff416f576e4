package crash_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/crash"
	"github.com/dibs-queue/dibs/sqlite"
)

// Each of these stores has one fault that the ledger has to name; the first has none.
var stores = []struct {
	fault string
	finds string // part of what is said about it; empty: nothing is
	wrap  func(dibs.Database) dibs.Database
}{
	{"none", "", func(d dibs.Database) dibs.Database { return d }},
	{"forgets the last job of a batch", "of its", func(d dibs.Database) dibs.Database { return forgetful{d} }},
	{"stops in the middle of a batch", "of its", func(d dibs.Database) dibs.Database { return half{d} }},
	{"answers for what it has not enqueued", "its 1 parts are there", func(d dibs.Database) dibs.Database { return idle{d} }},
	{"commits what is rolled back", "did nothing: its batch is there", func(d dibs.Database) dibs.Database { return stubborn{d} }},
	{"leaves outcomes out of a transaction", "parts are there", func(d dibs.Database) dibs.Database { return partial{d} }},
	{"answers before it finishes", "parts are there", func(d dibs.Database) dibs.Database { return &late{Database: d} }},
	{"loses results", "its result is", func(d dibs.Database) dibs.Database { return resultless{d} }},
	{"counts what is released", "of its attempts excused", func(d dibs.Database) dibs.Database { return counting{d} }},
	{"claims for nobody", "had not asked for it", func(d dibs.Database) dibs.Database { return losing{d} }},
	{"is not consistent", "two states", func(d dibs.Database) dibs.Database { return inconsistent{d} }},
}

func TestEachFaultIsFound(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		t.Run(s.fault, func(t *testing.T) {
			t.Parallel()
			db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{Relaxed: true})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var ledger crash.Ledger
			var found []string
			r := crash.Random(t)
			for run := range 3 {
				if err := cut(t.Context(), s.wrap(db), &ledger, r, run); !errors.Is(err, context.Canceled) && !errors.Is(err, dibs.ErrUnavailable) {
					found = append(found, err.Error())
				}
				lines, err := ledger.Judge(t.Context(), s.wrap(db))
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, lines...)
			}
			switch {
			case s.finds == "":
				if _, err := crash.Drain(t.Context(), db); err != nil || len(found) > 0 {
					t.Errorf("found %q, error %v", found, err)
				}
			case !slices.ContainsFunc(found, func(line string) bool { return strings.Contains(line, s.finds) }):
				t.Errorf("found %q, none of which says %q", found, s.finds)
			}
		})
	}
}

// cut runs a client until a few hundred notes have been taken, and returns why it ended.
func cut(ctx context.Context, db dibs.Database, ledger *crash.Ledger, r *rand.Rand, run int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	notes := 200 + r.IntN(100)
	c := crash.Client{Name: "c", Run: string(rune('a' + run)), DB: db, Rand: r, Note: func(n crash.Note) {
		ledger.Add(n)
		if notes--; notes == 0 {
			cancel()
		}
	}}
	return c.Loop(ctx)
}

func TestANoteCutOffDoesNotCount(t *testing.T) {
	t.Parallel()
	var ledger crash.Ledger
	notes, odd, err := ledger.Read(strings.NewReader(`{"Client":"c/a","Call":1,"Answer":"done"}` + "\n" + `error: no space` + "\n" + `{"Client":"c/a","Call":2}`))
	if notes != 1 || odd != "error: no space\n" || err != nil {
		t.Errorf("read %d notes, %q, %v", notes, odd, err)
	}
}

type forgetful struct{ dibs.Database }

func (d forgetful) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	done, err := d.Database.Enqueue(ctx, jobs[:max(1, len(jobs)-1)])
	if err == nil && len(jobs) > 1 {
		done = append(done, dibs.Enqueued{ID: done[len(done)-1].ID + 1})
	}
	return done, err
}

type half struct{ dibs.Database }

func (d half) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	if len(jobs) < 3 {
		return d.Database.Enqueue(ctx, jobs)
	}
	if _, err := d.Database.Enqueue(ctx, jobs[:len(jobs)/2]); err != nil {
		return nil, err
	}
	return nil, dibs.ErrUnavailable
}

type idle struct{ dibs.Database }

func (d idle) Enqueue(_ context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return make([]dibs.Enqueued, len(jobs)), nil
}

type stubborn struct{ dibs.Database }

func (d stubborn) InTx(ctx context.Context, f func(dibs.Tx) error) (err error) {
	return errors.Join(d.Database.InTx(ctx, func(tx dibs.Tx) error { err = f(tx); return nil }), err)
}

type partial struct{ dibs.Database }

func (d partial) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	return d.Database.InTx(ctx, func(tx dibs.Tx) error { return f(unfinished{tx}) })
}

type unfinished struct{ dibs.Tx }

func (unfinished) Finish(context.Context, []dibs.Outcome) error { return nil }

type late struct {
	dibs.Database
	next []dibs.Outcome
}

func (d *late) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	due := d.next
	d.next = outcomes
	if len(due) > 0 {
		if err := d.Database.Finish(ctx, due); err != nil {
			return err
		}
	}
	if string(outcomes[len(outcomes)-1].Result) == `"stale"` { // has to be refused at once
		d.next = nil
		return d.Database.Finish(ctx, outcomes)
	}
	return nil
}

type resultless struct{ dibs.Database }

func (d resultless) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	outcomes = slices.Clone(outcomes)
	for i := range outcomes {
		outcomes[i].Result = nil
	}
	return d.Database.Finish(ctx, outcomes)
}

type counting struct{ dibs.Database }

func (d counting) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	outcomes = slices.Clone(outcomes)
	for i, o := range outcomes {
		if o.Ending == dibs.EndRelease {
			outcomes[i] = dibs.Lease{ID: o.ID, Token: o.Token}.RetryAfter(0, "released")
		}
	}
	return d.Database.Finish(ctx, outcomes)
}

type losing struct{ dibs.Database }

func (d losing) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	jobs, err := d.Database.Claim(ctx, r)
	if len(jobs) > 1 {
		jobs = jobs[1:]
	}
	return jobs, err
}

type inconsistent struct{ dibs.Database }

func (d inconsistent) Check(context.Context) ([]string, error) {
	return []string{"job 1: is in two states"}, nil
}
