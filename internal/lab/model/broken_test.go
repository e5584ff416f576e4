package model_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/faulty"
	"github.com/dibs-queue/dibs/internal/lab/model"
)

// broken are stores with one fault each.
var broken = map[string]func(admin.Database) admin.Database{
	"claims in another order":        faulty.ReversesOrder.Store,
	"allows one more than the limit": func(d admin.Database) admin.Database { return generous{d} },
	"allows one more of each group": faulty.Fault{Group: func(g *dibs.Group) {
		if g.Limit > 0 {
			g.Limit++
		}
	}}.Store,
	"allows an attempt too many": faulty.Fault{Outcome: func(o *dibs.Outcome, now *dibs.RawJob) {
		if o.Ending == dibs.EndRetry && now.LastAttempt() {
			o.Ending, o.Delay, o.Error = dibs.EndSnooze, new(time.Duration(0)), ""
		}
	}}.Store,
	"keeps a unique key after the claim": faulty.Fault{Job: func(j *dibs.NewJob) { j.UniqueUntil = "" }}.Store,
	"counts released attempts":           faulty.CountsReleases.Store,
	"ignores priorities":                 faulty.Fault{Job: func(j *dibs.NewJob) { j.Priority = nil }}.Store,
	"reports no refused outcome":         faulty.Fault{HidesRefusals: true}.Store,
	"commits what was to be rolled back": faulty.Fault{AlwaysCommits: true}.Store,
	"claims jobs of any kind":            func(d admin.Database) admin.Database { return blind{d} },
	"forgets that a queue is strict":     func(d admin.Database) admin.Database { return &lax{d, map[string]bool{}} },
	"cancels no running jobs":            func(d admin.Database) admin.Database { return timid{d} },
	"takes any end for the one that a job needs": faulty.Fault{Job: func(j *dibs.NewJob) {
		j.After = slices.Clone(j.After)
		for i := range j.After {
			j.After[i].On = dibs.NeedEnded
		}
	}}.Store,
	"loses what attempts add":                     faulty.Fault{Outcome: func(o *dibs.Outcome, _ *dibs.RawJob) { o.Add = nil }}.Store,
	"leaves those cancelled that a requeue frees": func(d admin.Database) admin.Database { return strict{d} },
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
	for name, fault := range broken {
		t.Run("a store that "+name, func(t *testing.T) {
			t.Parallel()
			sound := model.SQLite(t, nil)
			f := &finding{TB: t}
			done := make(chan bool)
			go func() {
				defer close(done)
				model.Check(f, func(t model.TB) model.Database {
					db := sound(t)
					d := fault(db.Database)
					db.Database, db.Another = d, func() (admin.Database, error) { return d, nil }
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

type generous struct{ admin.Database }

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

type blind struct{ admin.Database }

func (d blind) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	r.Kinds = nil
	return d.Database.Claim(ctx, r)
}

type lax struct {
	admin.Database
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

type strict struct{ admin.Database }

func (d strict) Requeue(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	page, err := d.List(ctx, admin.Filter{State: dibs.Cancelled, Limit: 1000})
	if err != nil {
		return nil, err
	}
	done, err := d.Database.Requeue(ctx, ids, until)
	if err != nil {
		return nil, err
	}
	var back []int64
	for _, j := range page.Jobs {
		if slices.Contains(done, j.Cause) {
			back = append(back, j.ID)
		}
	}
	_, _, err = d.Cancel(ctx, back)
	return done, err
}

type timid struct{ admin.Database }

func (d timid) Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error) {
	var waiting []int64
	for _, id := range ids {
		if j, err := d.Get(ctx, id); err == nil && j.State != dibs.Running {
			waiting = append(waiting, id)
		}
	}
	return d.Database.Cancel(ctx, waiting)
}
