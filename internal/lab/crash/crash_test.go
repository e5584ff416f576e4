package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/crash"
	"github.com/dibs-queue/dibs/internal/lab/faulty"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/sqlite"
)

// Each of these stores, except the first, has one fault that the judge must find.
var stores = []struct {
	name  string
	finds string // part of the judge's message; empty: there must be none
	fault func(admin.Database) admin.Database
}{
	{"none", "", faulty.Fault{}.Store},
	{"forgets the last job of a batch", "promise 1:", func(d admin.Database) admin.Database { return losesLastJob{d} }},
	{"stops in the middle of a batch", "the jobs that were enqueued together", func(d admin.Database) admin.Database { return stopsHalfway{d} }},
	{"commits instead of rolling back", "failed or was rolled back", faulty.Fault{AlwaysCommits: true}.Store},
	{"leaves outcomes out of a transaction", "it ended twice", func(d admin.Database) admin.Database { return skipsOutcomes{d} }},
	{"answers before it finishes", "it ended twice", func(d admin.Database) admin.Database { return &crash.Early{Database: d} }},
	{"loses results", "an acknowledged finish was lost", faulty.Fault{Outcome: func(o *dibs.Outcome, _ *dibs.RawJob) { o.Result = nil }}.Store},
	{"counts released attempts", "excused attempts", faulty.CountsReleases.Store},
	{"claims a job and does not return it", "were given to nobody", faulty.Fault{Claimed: func(jobs []*dibs.RawJob) []*dibs.RawJob {
		return jobs[min(1, max(0, len(jobs)-1)):]
	}}.Store},
}

func TestEachFaultIsFound(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := crash.Random(t)
			var found []string
			for range 10 { // some faults show only by luck, and calls without an answer excuse them
				if found = threeCuts(t, s.fault, r, s.finds); s.finds == "" || found == nil {
					break
				}
			}
			if len(found) > 0 {
				t.Errorf("found %q, want %q", found, s.finds)
			}
		})
	}
}

// threeCuts judges a new database after each of three cuts. It returns nil once the judge finds
// the expected violation, and otherwise the judge's last findings.
func threeCuts(t *testing.T, fault func(admin.Database) admin.Database, r *rand.Rand, finds string) (found []string) {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "jobs.db"), sqlite.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for run := range 3 {
		cut(t, fault(db), dir, r, run)
		if found, err = crash.Judge(t.Context(), db, dir, fmt.Sprint("judge-", run)); err != nil {
			t.Fatal(err)
		}
		if finds != "" && slices.ContainsFunc(found, func(line string) bool { return strings.Contains(line, finds) }) {
			return nil
		}
	}
	if finds != "" && len(found) == 0 {
		return []string{"nothing"}
	}
	return found
}

// cut runs a client until its context ends in the middle of a call.
func cut(t *testing.T, db admin.Database, dir string, r *rand.Rand, run int) {
	t.Helper()
	rec, err := history.OpenIn(dir, fmt.Sprint("c-", run))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := 0
	c := crash.Client{Name: "c", DB: history.Wrap(db, rec), Rand: r, Answered: func() {
		if steps++; steps == 100 {
			time.AfterFunc(time.Duration(r.IntN(1000))*time.Microsecond, cancel)
		}
	}}
	if err := c.Loop(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, dibs.ErrUnavailable) {
		t.Error(err)
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}

type losesLastJob struct{ admin.Database }

func (d losesLastJob) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	done, err := d.Database.Enqueue(ctx, jobs[:max(1, len(jobs)-1)])
	if err == nil && len(jobs) > 1 {
		done = append(done, dibs.Enqueued{ID: done[len(done)-1].ID + 1})
	}
	return done, err
}

type stopsHalfway struct{ admin.Database }

func (d stopsHalfway) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	if len(jobs) < 3 {
		return d.Database.Enqueue(ctx, jobs)
	}
	if _, err := d.Database.Enqueue(ctx, jobs[:len(jobs)/2]); err != nil {
		return nil, err
	}
	return nil, dibs.ErrUnavailable
}

type skipsOutcomes struct{ admin.Database }

func (d skipsOutcomes) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	return d.Database.InTx(ctx, func(tx dibs.Tx) error { return f(skipsFinish{tx}) })
}

type skipsFinish struct{ dibs.Tx }

func (skipsFinish) Finish(context.Context, []dibs.Outcome) error { return nil }
