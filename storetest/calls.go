package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// The calls below end the test if they fail, so only the test's own goroutine may make them.
// A test that expects a failure calls t.db itself.

func (t *test) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// enqueue enqueues jobs and returns their ids. No unique key may be held already.
func (t *test) enqueue(jobs ...dibs.NewJob) []int64 {
	t.Helper()
	return t.enqueueOn(t.db, jobs...)
}

func (t *test) enqueueOn(s interface {
	Enqueue(context.Context, []dibs.NewJob) ([]dibs.Enqueued, error)
}, jobs ...dibs.NewJob,
) []int64 {
	t.Helper()
	done, err := s.Enqueue(t.ctx, jobs)
	t.must(err)
	equal(t, "results of Enqueue", len(done), len(jobs))
	ids := make([]int64, len(done))
	for i, e := range done {
		if e.Existing {
			t.Fatalf("job %d of the batch was not inserted: job %d exists", i, e.ID)
		}
		ids[i] = e.ID
	}
	return ids
}

// claim claims for worker "w" and an hour, unless the request says otherwise. So leases end only
// in tests that ask for short ones.
func (t *test) claim(r dibs.ClaimRequest) []*dibs.RawJob {
	t.Helper()
	return t.claimOn(t.db, r)
}

func (t *test) claimOn(s interface {
	Claim(context.Context, dibs.ClaimRequest) ([]*dibs.RawJob, error)
}, r dibs.ClaimRequest,
) []*dibs.RawJob {
	t.Helper()
	if r.Worker == "" {
		r.Worker = "w"
	}
	if r.Lease == 0 {
		r.Lease = time.Hour
	}
	jobs, err := s.Claim(t.ctx, r)
	t.must(err)
	if len(jobs) > r.N {
		t.Fatalf("claimed %d jobs, asked for %d at most", len(jobs), r.N)
	}
	return jobs
}

// claimOne claims and expects exactly one job.
func (t *test) claimOne(r dibs.ClaimRequest) *dibs.RawJob {
	t.Helper()
	r.N = max(r.N, 1)
	jobs := t.claim(r)
	if len(jobs) != 1 {
		t.Fatalf("claimed jobs %v, want exactly one", ids(jobs))
	}
	return jobs[0]
}

// claimSoon claims repeatedly until it has n jobs.
func (t *test) claimSoon(r dibs.ClaimRequest, n int) []*dibs.RawJob {
	t.Helper()
	var jobs []*dibs.RawJob
	t.waitUntil(strconv.Itoa(n)+" jobs can be claimed", func() bool {
		r.N = n - len(jobs)
		jobs = append(jobs, t.claim(r)...)
		return len(jobs) == n
	})
	return jobs
}

func (t *test) finish(outcomes ...dibs.Outcome) {
	t.Helper()
	t.must(t.db.Finish(t.ctx, outcomes))
}

// expectRefused finishes jobs and expects exactly these ids to be refused.
func (t *test) expectRefused(want []int64, outcomes ...dibs.Outcome) {
	t.Helper()
	t.expectLost(t.db.Finish(t.ctx, outcomes), want...)
}

// expectLost expects an error which says that exactly these leases are lost.
func (t *test) expectLost(err error, want ...int64) {
	t.Helper()
	var lost *dibs.FinishError
	if !errors.Is(err, dibs.ErrLeaseLost) || !errors.As(err, &lost) {
		t.Fatalf("got error %v, want a FinishError", err)
	}
	equal(t, "refused ids", slices.Sorted(slices.Values(lost.Lost)), slices.Sorted(slices.Values(want)))
}

func (t *test) extend(d time.Duration, leases ...dibs.Lease) dibs.Extended {
	t.Helper()
	e, err := t.db.Extend(t.ctx, leases, d)
	t.must(err)
	slices.Sort(e.Lost)
	slices.Sort(e.Cancelled)
	slices.Sort(e.TimedOut)
	return e
}

// extendAll extends leases and expects that none is lost.
func (t *test) extendAll(d time.Duration, leases ...dibs.Lease) {
	t.Helper()
	if e := t.extend(d, leases...); len(e.Lost) > 0 {
		t.Fatalf("leases on %v were lost", e.Lost)
	}
}

// sweep sweeps, and repeats it while another process sweeps.
func (t *test) sweep() dibs.Swept {
	t.Helper()
	var swept dibs.Swept
	t.waitUntil("nobody else sweeps", func() bool {
		s, err := t.db.Sweep(t.ctx)
		t.must(err)
		swept = s
		return !s.Busy
	})
	return swept
}

func (t *test) get(id int64) *dibs.RawJob {
	t.Helper()
	j, err := t.db.Get(t.ctx, id)
	t.must(err)
	return j
}

// inState expects jobs to be in a state.
func (t *test) inState(want dibs.State, jobs ...int64) {
	t.Helper()
	for _, id := range jobs {
		if got := t.get(id).State; got != want {
			t.Fatalf("job %d is %s, want %s", id, got, want)
		}
	}
}

// expectGone expects that there is no job with this id.
func (t *test) expectGone(id int64) {
	t.Helper()
	if j, err := t.db.Get(t.ctx, id); !errors.Is(err, dibs.ErrNotFound) {
		t.Fatalf("Get(%d) gave %v, %v, want ErrNotFound", id, j, err)
	}
}

// expectUnchanged runs f and expects that it does not change the job.
func (t *test) expectUnchanged(id int64, f func()) {
	t.Helper()
	before := t.get(id)
	f()
	sameJob(t, t.get(id), before)
}

func (t *test) set(queue string, c dibs.QueueChange) dibs.Queue {
	t.Helper()
	q, err := t.db.ChangeQueue(t.ctx, queue, c.Apply)
	t.must(err)
	return q
}

// retryLate sets the backoff of a queue so that no retry becomes due during a test, however slow.
func (t *test) retryLate(queue string) {
	t.Helper()
	t.set(queue, dibs.QueueChange{Backoff: &dibs.Backoff{Base: time.Hour, Factor: 1, Max: time.Hour}})
}

func (t *test) list(f admin.Filter) []*dibs.RawJob {
	t.Helper()
	p, err := t.db.List(t.ctx, f)
	t.must(err)
	return p.Jobs
}

func (t *test) edit(e admin.Edit, jobs ...int64) []int64 {
	t.Helper()
	changed, err := t.db.Edit(t.ctx, jobs, e)
	t.must(err)
	slices.Sort(changed)
	return changed
}

func (t *test) requeue(jobs ...int64) []int64 {
	t.Helper()
	changed, err := t.db.Requeue(t.ctx, jobs, time.Time{})
	t.must(err)
	slices.Sort(changed)
	return changed
}

func (t *test) cancel(jobs ...int64) (ended, asked []int64) {
	t.Helper()
	ended, asked, err := t.db.Cancel(t.ctx, jobs)
	t.must(err)
	slices.Sort(ended)
	slices.Sort(asked)
	return ended, asked
}

// stats returns the statistics of one queue.
func (t *test) stats(queue string) admin.QueueStats {
	t.Helper()
	all, err := t.db.Stats(t.ctx)
	t.must(err)
	for _, s := range all {
		if s.Queue == queue {
			return s
		}
	}
	t.Fatalf("no statistics of queue %q", queue)
	return admin.QueueStats{}
}

// beginTx begins a caller's transaction, which ends at the latest with the test.
func (t *test) beginTx() Tx {
	t.Helper()
	// The end of the test's own context would roll the transaction back.
	tx, err := t.begin(context.WithoutCancel(t.ctx))
	t.must(err)
	commit, rollback, lose := tx.Commit, tx.Rollback, tx.Break
	t.open.Add(1)
	var once sync.Once
	end := func(f func() error) func() error {
		return func() (err error) {
			once.Do(func() { err = f(); t.open.Add(-1) })
			return err
		}
	}
	tx.Commit, tx.Rollback, tx.Break = end(commit), end(rollback), end(lose)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// effects makes the caller's table effect, and returns a function that counts its rows.
func (t *test) effects() (count func() int) {
	t.Helper()
	tx := t.beginTx()
	t.must(tx.Exec(t.ctx, "create table effect (job bigint not null)"))
	t.must(tx.Commit())
	return func() int {
		t.Helper()
		tx := t.beginTx()
		n, err := tx.Count(t.ctx, "select count(*) from effect")
		t.must(err)
		t.must(tx.Rollback())
		return n
	}
}

// effect returns the statement with which a handler writes its effect to the caller's table.
func effect(id int64) string {
	return "insert into effect (job) values (" + strconv.FormatInt(id, 10) + ")"
}

func ids(jobs []*dibs.RawJob) []int64 {
	out := make([]int64, len(jobs))
	for i, j := range jobs {
		out[i] = j.ID
	}
	return out
}

func leases(jobs []*dibs.RawJob) []dibs.Lease {
	out := make([]dibs.Lease, len(jobs))
	for i, j := range jobs {
		out[i] = j.Lease()
	}
	return out
}

// outcomes makes one outcome for each job.
func outcomes(jobs []*dibs.RawJob, f func(dibs.Lease) dibs.Outcome) []dibs.Outcome {
	out := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		out[i] = f(j.Lease())
	}
	return out
}

func completed(l dibs.Lease) dibs.Outcome { return l.Complete(nil) }

// copies returns a batch of n equal jobs.
func copies(n int, j dibs.NewJob) []dibs.NewJob { return slices.Repeat([]dibs.NewJob{j}, n) }

func equal(t *test, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// sameIDs expects two lists of ids to be equal. An empty one may be nil.
func sameIDs(t *test, what string, got, want []int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// sameJob expects all fields that users see to be equal.
func sameJob(t *test, got, want *dibs.RawJob) {
	t.Helper()
	a, err := json.Marshal(got)
	t.must(err)
	b, err := json.Marshal(want)
	t.must(err)
	if !bytes.Equal(a, b) {
		t.Fatalf("job %d: got\n%s\nwant\n%s", want.ID, a, b)
	}
}

// near expects a duration by the database's clock. It allows a few milliseconds for the
// clock's resolution.
func near(t *test, what string, got, want time.Duration) {
	t.Helper()
	if diff := (got - want).Abs(); diff > 20*time.Millisecond {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
