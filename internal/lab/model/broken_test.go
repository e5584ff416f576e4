package model_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/model"
)

// broken are stores with one fault each.
var broken = map[string]func(dibs.Database) dibs.Database{
	"claims in another order":            func(d dibs.Database) dibs.Database { return backward{d} },
	"allows one more than the limit":     func(d dibs.Database) dibs.Database { return generous{d} },
	"allows one more of each group":      func(d dibs.Database) dibs.Database { return crowded{d} },
	"allows an attempt too many":         func(d dibs.Database) dibs.Database { return stubborn{d} },
	"keeps a unique key after the claim": func(d dibs.Database) dibs.Database { return keeper{d} },
	"counts released attempts":           func(d dibs.Database) dibs.Database { return petty{d} },
	"ignores priorities":                 func(d dibs.Database) dibs.Database { return level{d} },
	"reports no refused outcome":         func(d dibs.Database) dibs.Database { return silent{d} },
	"commits what was to be rolled back": func(d dibs.Database) dibs.Database { return hasty{d} },
	"claims jobs of any kind":            func(d dibs.Database) dibs.Database { return blind{d} },
	"forgets that a queue is strict":     func(d dibs.Database) dibs.Database { return &lax{d, map[string]bool{}} },
	"cancels no running jobs":            func(d dibs.Database) dibs.Database { return timid{d} },
}

// TestFindsBrokenStores shows that random calls find each fault, in as many calls as an
// ordinary test makes, and print them as a test. A fixed seed repeats the same calls.
func TestFindsBrokenStores(t *testing.T) {
	if testing.Short() {
		t.Skip("the short form makes too few calls to be sure")
	}
	if err := flag.Set("rapid.seed", "1"); err != nil {
		t.Fatal(err)
	}
	for fault, wrap := range broken {
		t.Run("a store that "+fault, func(t *testing.T) {
			t.Parallel()
			sound := model.SQLite(t, nil)
			f := &finding{TB: t}
			done := make(chan bool)
			go func() {
				defer close(done)
				model.Check(f, func(t model.TB) model.Database {
					db := sound(t)
					d := wrap(db.Database)
					db.Database, db.Another = d, func() (dibs.Database, error) { return d, nil }
					return db
				})
			}()
			<-done
			if log := f.log.String(); !f.failed || !strings.Contains(log, "func TestFound(") {
				t.Fatalf("was not found:\n%s", log)
			}
			t.Log(f.log.String())
		})
	}
}

// finding is a test that is expected to fail.
type finding struct {
	rapid.TB
	failed bool
	log    strings.Builder
}

func (f *finding) Logf(format string, args ...any) { fmt.Fprintf(&f.log, format+"\n", args...) }
func (f *finding) Log(args ...any)                 { fmt.Fprintln(&f.log, args...) }
func (f *finding) Failed() bool                    { return f.failed }
func (f *finding) Fail()                           { f.failed = true }
func (f *finding) Errorf(format string, args ...any) {
	f.Logf(format, args...)
	f.Fail()
}

func (f *finding) FailNow() {
	f.Fail()
	runtime.Goexit()
}

type backward struct{ dibs.Database }

func (d backward) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	jobs, err := d.Database.Claim(ctx, r)
	slices.Reverse(jobs)
	return jobs, err
}

type generous struct{ dibs.Database }

func (d generous) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	q, err := d.Database.ChangeQueue(ctx, name, func(q *dibs.Queue) error {
		q.Concurrency = max(0, q.Concurrency-1)
		err := f(q)
		if q.Concurrency > 0 {
			q.Concurrency++
		}
		return err
	})
	q.Concurrency = max(0, q.Concurrency-1)
	return q, err
}

type crowded struct{ dibs.Database }

func (d crowded) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	return d.Database.ChangeGroup(ctx, queue, group, func(g *dibs.Group) error {
		err := f(g)
		if g.Limit > 0 {
			g.Limit++
		}
		return err
	})
}

type stubborn struct{ dibs.Database }

func (d stubborn) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	outcomes = slices.Clone(outcomes)
	for i := range outcomes {
		j, err := d.Get(ctx, outcomes[i].ID)
		if o := &outcomes[i]; err == nil && o.Ending == dibs.EndRetry && j.LastAttempt() {
			o.Ending, o.Delay, o.Error = dibs.EndSnooze, new(time.Duration(0)), ""
		}
	}
	return d.Database.Finish(ctx, outcomes)
}

type keeper struct{ dibs.Database }

func (d keeper) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].UniqueUntil = ""
	}
	return d.Database.Enqueue(ctx, jobs)
}

type petty struct{ dibs.Database }

func (d petty) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	outcomes = slices.Clone(outcomes)
	for i := range outcomes {
		if o := &outcomes[i]; o.Ending == dibs.EndRelease {
			o.Ending = dibs.EndRetry
			o.Delay = new(time.Duration(0))
		}
	}
	return d.Database.Finish(ctx, outcomes)
}

type level struct{ dibs.Database }

func (d level) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Priority = nil
	}
	return d.Database.Enqueue(ctx, jobs)
}

type silent struct{ dibs.Database }

func (d silent) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if err := d.Database.Finish(ctx, outcomes); !errors.Is(err, dibs.ErrLeaseLost) {
		return err
	}
	return nil
}

type hasty struct{ dibs.Database }

func (d hasty) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	var failed error
	err := d.Database.InTx(ctx, func(tx dibs.Tx) error {
		failed = f(tx)
		return nil
	})
	return errors.Join(failed, err)
}

type blind struct{ dibs.Database }

func (d blind) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	r.Kinds = nil
	return d.Database.Claim(ctx, r)
}

type lax struct {
	dibs.Database
	strict map[string]bool // the settings that it reports
}

func (d *lax) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	q, err := d.Database.ChangeQueue(ctx, name, func(q *dibs.Queue) error {
		stored := q.Strict
		q.Strict = d.strict[name]
		err := f(q)
		d.strict[name], q.Strict = q.Strict, stored
		return err
	})
	q.Strict = d.strict[name]
	return q, err
}

type timid struct{ dibs.Database }

func (d timid) Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error) {
	var waiting []int64
	for _, id := range ids {
		if j, err := d.Get(ctx, id); err == nil && j.State != dibs.Running {
			waiting = append(waiting, id)
		}
	}
	return d.Database.Cancel(ctx, waiting)
}
