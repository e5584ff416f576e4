package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Database is a real store that is compared with a model.
type Database struct {
	admin.Database
	Lazy, AtOnce bool // see Model
	// Pass lets time pass: it subtracts d from every time in the database.
	Pass func(d time.Duration) error
	// Another opens the same database again.
	Another func() (admin.Database, error)
}

// Maker creates an empty database, and deletes it when t ends.
type Maker func(t TB) Database

// TB has the methods that *testing.T and *rapid.T share.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	Context() context.Context
}

// Run is a model and a store in lockstep: each method makes the same call on both and
// compares the answers. Ids, tokens and times in arguments are the model's: the n-th
// job has the id n, Token(n) is the n-th claim's, and In gives times.
//
// Nothing here sleeps. Only Pass lets time pass, by hours: so much longer than the test
// runs that the real clock never matters.
type Run struct {
	t     TB
	db    Database
	m     *Model
	ctx   context.Context
	calls []call // the calls so far
	flows bool   // random jobs come after others

	ids    []int64      // the store's id of each job
	tokens []dibs.Token // the store's token of each claim

	// Set while a transaction is open:
	txStart    *Model // the database as others see it, and as a rollback leaves it
	jobsBefore int    // number of jobs before it
	usedQueues map[string]bool
	txCalls    chan func(dibs.Tx) // calls for its goroutine
	txResult   error              // result of the transaction's function
	txEnded    chan error         // receives the result of InTx
}

// Start begins with an empty database and two queues, "a" and "b", whose backoffs and
// leases are hours long.
func Start(t TB, newDatabase Maker) *Run {
	t.Helper()
	r := &Run{t: t, db: newDatabase(t), ctx: context.Background()}
	r.m = newModel(r.db.Lazy)
	r.m.AtOnce = r.db.AtOnce
	t.Cleanup(func() {
		if r.txStart != nil {
			_ = r.endTx(errRollback) // the failure has been reported
		}
	})
	for _, queue := range []string{"a", "b"} {
		c := dibs.QueueChange{
			Lease: new(2 * time.Hour), Backoff: &dibs.Backoff{Base: time.Hour, Factor: 2, Max: 4 * time.Hour},
			KeepCompleted: new(3 * time.Hour), KeepDead: new(5 * time.Hour), KeepCancelled: new(4 * time.Hour),
			MaxAttempts: new(2), PayloadLimit: new(20),
		}
		_, err := r.db.ChangeQueue(r.ctx, queue, c.Apply)
		r.must(err)
		_, err = r.m.SetQueue(queue, c)
		r.must(err)
	}
	return r
}

// Pass lets time pass.
func (r *Run) Pass(d time.Duration) {
	r.log("Pass", d)
	r.must(r.db.Pass(d))
	r.m.Pass(d)
}

// Another closes the database and opens it again, as after a crash.
func (r *Run) Another() {
	r.log("Another")
	db, err := r.db.Another()
	r.must(err)
	r.db.Database = db
}

// Enqueue enqueues jobs.
func (r *Run) Enqueue(jobs ...dibs.NewJob) {
	r.log("Enqueue", list(jobs)...)
	theirs := r.theirJobs(jobs)
	want, wantErr := r.m.Enqueue(jobs)
	var got []dibs.Enqueued
	err := r.call(func(s writer) (err error) {
		got, err = s.Enqueue(r.ctx, theirs)
		return err
	})
	r.sameError(err, r.theirNoJob(wantErr))
	for i, e := range got {
		if !e.Existing {
			if n := len(r.ids); n > 0 && e.ID <= r.ids[n-1] {
				r.fail("ids do not grow")
			}
			r.ids = append(r.ids, e.ID)
		}
		got[i].ID = r.ourID(e.ID)
	}
	r.same("Enqueue", got, want)
	for _, j := range jobs {
		r.noteQueue(j.Queue)
	}
}

// Claim claims. It sweeps first unless a transaction is open, since a store may sweep by
// itself before a claim.
func (r *Run) Claim(q dibs.ClaimRequest) {
	r.log("Claim", q)
	if r.txStart == nil {
		r.sweep()
	}
	var due []string
	var err error
	if r.txStart == nil {
		due, err = r.db.Due(r.ctx, []string{q.Queue}, q.Kinds)
		r.must(err)
	}
	want := r.m.Claim(q)
	var got []*dibs.RawJob
	r.must(r.call(func(s writer) (err error) {
		got, err = s.Claim(r.ctx, q)
		return err
	}))
	r.sameClaim("Claim", got, want)
	if r.txStart == nil && len(got) > 0 {
		r.same("Due before a Claim that got jobs", due, []string{q.Queue})
	}
	r.noteQueue(q.Queue)
}

// Resume resumes.
func (r *Run) Resume(q dibs.ClaimRequest) {
	r.log("Resume", q)
	want := r.m.Resume(q)
	got, err := r.db.Resume(r.ctx, q)
	r.must(err)
	r.sameClaim("Resume", got, want)
}

func (r *Run) sameClaim(op string, got, want []*dibs.RawJob) {
	if len(got) > 0 && len(want) > 0 {
		r.tokens = append(r.tokens, got[0].Token)
	}
	r.sameJobs(op, got, want)
}

// Extend extends leases.
func (r *Run) Extend(d time.Duration, leases ...dibs.Lease) {
	r.log("Extend", append([]any{d}, list(leases)...)...)
	theirs := make([]dibs.Lease, len(leases))
	for i, l := range leases {
		theirs[i] = dibs.Lease{ID: r.theirID(l.ID), Token: r.theirToken(l.Token)}
	}
	want := r.m.Extend(leases, d)
	got, err := r.db.Extend(r.ctx, theirs, d)
	r.must(err)
	r.same("lost", r.ourIDs(got.Lost), sorted(want.Lost))
	r.same("cancelled", r.ourIDs(got.Cancelled), sorted(want.Cancelled))
}

// Finish writes outcomes. A transaction in which one is refused is rolled back.
func (r *Run) Finish(outcomes ...dibs.Outcome) {
	r.log("Finish", list(outcomes)...)
	theirs := slices.Clone(outcomes)
	for i := range theirs {
		o := &theirs[i]
		if j := r.m.Get(o.ID); j != nil {
			r.noteQueue(j.Queue)
		}
		o.ID, o.Token, o.Add = r.theirID(o.ID), r.theirToken(o.Token), r.theirJobs(o.Add)
	}
	want := r.m.Finish(outcomes)
	err := r.call(func(s writer) error { return s.Finish(r.ctx, theirs) })
	var lost dibs.FinishError
	if refused := (*dibs.FinishError)(nil); errors.As(err, &refused) {
		lost = *refused
	} else {
		r.must(err)
	}
	r.same("refused", r.ourIDs(lost.Lost), sorted(want))
	r.findAdded()
	if r.txStart != nil && len(want) > 0 {
		r.rollback()
	}
}

// Sweep sweeps.
func (r *Run) Sweep() {
	r.log("Sweep")
	r.sweep()
}

func (r *Run) sweep() {
	want := r.m.Sweep()
	got, err := r.db.Sweep(r.ctx)
	r.must(err)
	r.same("Sweep", got, want)
}

// Begin opens a transaction: Enqueue, Claim and Finish are part of it until Commit or
// Rollback. It sweeps first, as the first claim in a transaction does.
func (r *Run) Begin() {
	r.log("Begin")
	r.sweep()
	r.txStart, r.jobsBefore, r.usedQueues = r.m.Begin(), len(r.ids), map[string]bool{}
	r.txCalls, r.txEnded = make(chan func(dibs.Tx)), make(chan error, 1)
	go func() {
		r.txEnded <- r.db.InTx(r.ctx, func(tx dibs.Tx) error {
			for f := range r.txCalls {
				f(tx)
			}
			return r.txResult
		})
	}()
}

// Commit commits.
func (r *Run) Commit() {
	r.log("Commit")
	r.m.Commit()
	r.must(r.endTx(nil))
}

// Rollback rolls back.
func (r *Run) Rollback() {
	r.log("Rollback")
	r.rollback()
}

var errRollback = errors.New("rolled back")

func (r *Run) rollback() {
	r.m.Rollback(r.txStart)
	if err := r.endTx(errRollback); !errors.Is(err, errRollback) {
		r.fail("rollback returned %v", err)
	}
	r.ids = r.ids[:r.jobsBefore]
}

// endTx ends the open transaction: result is what its function returns.
func (r *Run) endTx(result error) error {
	r.txStart, r.usedQueues, r.txResult = nil, nil, result
	close(r.txCalls)
	return <-r.txEnded
}

// writer has the methods that stores and transactions share.
type writer interface {
	Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error)
	Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error)
	Finish(ctx context.Context, outcomes []dibs.Outcome) error
}

// call calls the store, or the open transaction in its own goroutine.
func (r *Run) call(f func(writer) error) (err error) {
	if r.txStart == nil {
		return f(r.db)
	}
	done := make(chan bool)
	run := func(tx dibs.Tx) {
		err = f(tx)
		close(done)
	}
	select {
	case r.txCalls <- run:
		<-done
		return err
	case err := <-r.txEnded:
		r.txEnded <- err // endTx receives it
		return fmt.Errorf("the transaction has ended: %w", err)
	}
}

// Cancel cancels jobs.
func (r *Run) Cancel(ids ...int64) {
	r.log("Cancel", list(ids)...)
	wantEnded, wantAsked := r.m.Cancel(ids)
	ended, asked, err := r.db.Cancel(r.ctx, r.theirIDs(ids))
	r.must(err)
	r.same("cancelled", r.ourIDs(ended), wantEnded)
	r.same("asked to stop", r.ourIDs(asked), wantAsked)
}

// Requeue requeues jobs.
func (r *Run) Requeue(ids ...int64) {
	r.log("Requeue", list(ids)...)
	want := r.m.Requeue(ids)
	got, err := r.db.Requeue(r.ctx, r.theirIDs(ids), time.Time{})
	r.must(err)
	r.same("Requeue", r.ourIDs(got), want)
}

// Edit edits jobs.
func (r *Run) Edit(e admin.Edit, ids ...int64) {
	r.log("Edit", append([]any{e}, list(ids)...)...)
	theirs := e
	if e.RunAt != nil {
		theirs.RunAt = new(r.theirTime(*e.RunAt))
	}
	want := r.m.Edit(ids, e)
	got, err := r.db.Edit(r.ctx, r.theirIDs(ids), theirs)
	r.must(err)
	r.same("Edit", r.ourIDs(got), want)
}

// Prune prunes.
func (r *Run) Prune(queue string, state dibs.State, olderThan time.Duration) {
	r.log("Prune", queue, state, olderThan)
	want := r.m.Prune(queue, state, olderThan)
	got, err := r.db.Prune(r.ctx, queue, state, olderThan)
	r.must(err)
	r.same("Prune", got, want)
}

// SetQueue changes a queue's settings.
func (r *Run) SetQueue(name string, c dibs.QueueChange) {
	r.log("SetQueue", name, c)
	want, wantErr := r.m.SetQueue(name, c)
	got, err := r.db.ChangeQueue(r.ctx, name, c.Apply)
	r.sameError(err, wantErr)
	r.same("SetQueue", got, want)
}

// SetGroup gives a group its own limit.
func (r *Run) SetGroup(queue, group string, limit int) {
	r.log("SetGroup", queue, group, limit)
	r.m.SetGroup(queue, group, limit)
	r.must(r.db.ChangeGroup(r.ctx, queue, group, dibs.GroupChange{Limit: &limit}.Apply))
}

// List lists jobs, page by page.
func (r *Run) List(f admin.Filter) {
	r.log("List", f)
	r.list(r.m, f)
}

// Get gets a job.
func (r *Run) Get(id int64) {
	r.log("Get", id)
	want := r.m.Get(id)
	got, err := r.db.Get(r.ctx, r.theirID(id))
	if want == nil {
		if !errors.Is(err, dibs.ErrNotFound) {
			r.fail("Get returned error %v, want ErrNotFound", err)
		}
		return
	}
	r.must(err)
	r.sameJobs("Get", []*dibs.RawJob{got}, []*dibs.RawJob{want})
}

// noteQueue records that the open transaction has used a queue.
func (r *Run) noteQueue(queue string) {
	if r.txStart != nil {
		r.usedQueues[queue] = true
	}
}
