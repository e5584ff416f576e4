package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// The locks of callers' open transactions must not make other calls wait, nor let a limit
// be exceeded or a job be forgotten.

// bench is a store with a pool of the caller's own beside it.
type bench struct {
	*testing.T
	*postgres.Store
	pool *pgxpool.Pool
	ctx  context.Context
}

func newBench(t *testing.T, o postgres.Options) bench {
	t.Parallel()
	s, url := migrated(t, o)
	return newBenchOn(t, s, url)
}

func (b bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b bench) begin() pgx.Tx { return b.beginAs(pgx.ReadCommitted) }

func (b bench) beginAs(level pgx.TxIsoLevel) pgx.Tx {
	b.Helper()
	tx, err := b.pool.BeginTx(b.ctx, pgx.TxOptions{IsoLevel: level})
	b.must(err)
	b.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // does nothing after the end
	return tx
}

// add enqueues one job of kind k into the queue q for each group; "" is no group.
func (b bench) add(groups ...string) []int64 {
	b.Helper()
	jobs := make([]dibs.NewJob, len(groups))
	for i, g := range groups {
		jobs[i] = dibs.NewJob{Queue: "q", Kind: "k", Group: g}
	}
	added, err := b.Enqueue(b.ctx, jobs)
	b.must(err)
	ids := make([]int64, len(added))
	for i, e := range added {
		ids[i] = e.ID
	}
	return ids
}

// request asks for n jobs under a lease that outlasts the test, however slow the machine is.
func request(n int) dibs.ClaimRequest {
	return dibs.ClaimRequest{Queue: "q", Worker: "w", N: n, Lease: time.Hour}
}

func (b bench) take(n int, lease time.Duration) []*dibs.RawJob {
	b.Helper()
	r := request(n)
	r.Lease = cmp.Or(lease, r.Lease)
	jobs, err := b.Claim(b.ctx, r)
	b.must(err)
	return jobs
}

func (b bench) change(c dibs.QueueChange) {
	b.Helper()
	_, err := b.ChangeQueue(b.ctx, "q", c.Apply)
	b.must(err)
}

// awaitLeaseEnd waits until the database's clock has passed the end of the leases.
func (b bench) awaitLeaseEnd(jobs []*dibs.RawJob) {
	b.Helper()
	_, err := b.pool.Exec(b.ctx, "select pg_sleep_until($1)", jobs[0].LeaseUntil.Add(10*time.Millisecond))
	b.must(err)
}

func (b bench) consistent() {
	b.Helper()
	found, err := b.Check(b.ctx)
	b.must(err)
	for _, f := range found {
		b.Error(f)
	}
}

func TestAnEnqueueDoesNotWaitForAClaimInATransaction(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.change(dibs.QueueChange{Concurrency: new(5)})
	b.add("")
	tx := b.begin()
	inside := b.Tx(tx)
	if jobs, err := inside.Claim(b.ctx, request(1)); err != nil || len(jobs) != 1 {
		t.Fatal(len(jobs), err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
	defer cancel()
	first := []dibs.NewJob{{Queue: "q", Kind: "k", Group: "first of the queue"}}
	if _, err := b.Enqueue(ctx, first); err != nil {
		t.Errorf("outside of the transaction: %v", err)
	}
	if _, err := inside.Enqueue(ctx, first); err != nil {
		t.Errorf("inside: %v", err)
	}
	if _, err := b.ChangeQueue(ctx, "q", dibs.QueueChange{Paused: new(true)}.Apply); err != nil {
		t.Errorf("pausing: %v", err)
	}
	b.must(tx.Commit(b.ctx))
	b.consistent()
}

func TestABlockedJobIsNotForgottenWhileACancelWaits(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	ids := b.add("g", "g")
	running := b.take(1, 0)
	other, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "other", Kind: "k"}})
	b.must(err)
	tx := b.begin()
	_, err = b.Tx(tx).Claim(b.ctx, dibs.ClaimRequest{Queue: "other", Worker: "w", N: 1})
	b.must(err)
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = b.Cancel(ctx, []int64{other[0].ID, 1 << 40}) // waits for tx
	}()
	b.must(b.Finish(b.ctx, []dibs.Outcome{running[0].Lease().Complete(nil)}))
	if jobs := b.take(5, 0); len(jobs) != 1 || jobs[0].ID != ids[1] {
		t.Errorf("claimed %d jobs, want the second of the group", len(jobs))
	}
	cancel()
	<-done
	b.must(tx.Rollback(b.ctx))
	b.consistent()
}

func TestALoweredLimitHolds(t *testing.T) {
	three := []string{"g", "g", "g"}
	t.Run("when a claiming transaction rolls back", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		b.change(dibs.QueueChange{GroupLimit: new(3)})
		b.add(three...)
		tx := b.begin()
		if jobs, err := b.Tx(tx).Claim(b.ctx, request(3)); err != nil || len(jobs) != 3 {
			t.Fatal(len(jobs), err)
		}
		b.change(dibs.QueueChange{GroupLimit: new(1)})
		if n := len(b.take(5, 0)); n != 0 {
			t.Errorf("%d jobs started while the transaction was open", n)
		}
		b.must(tx.Rollback(b.ctx))
		if n := len(b.take(5, 0)); n != 1 {
			t.Errorf("%d jobs of the group run, the limit is 1", n)
		}
		b.consistent()
	})
	t.Run("when leases end", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		b.change(dibs.QueueChange{GroupLimit: new(3)})
		b.add(three...)
		jobs := b.take(5, dibs.MinLease)
		b.change(dibs.QueueChange{GroupLimit: new(1)})
		_, err := b.Sweep(b.ctx)
		b.must(err)
		b.awaitLeaseEnd(jobs)
		_, err = b.Sweep(b.ctx)
		b.must(err)
		if n := len(b.take(5, 0)); n != 1 {
			t.Errorf("%d jobs of the group run, the limit is 1", n)
		}
		b.consistent()
	})
	t.Run("over more groups than one admission handles", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		b.change(dibs.QueueChange{GroupLimit: new(2)})
		groups := make([]string, 2400)
		for i := range groups {
			groups[i] = strconv.Itoa(i / 2)
		}
		b.add(groups...)
		for range 3 {
			_, err := b.Sweep(b.ctx)
			b.must(err)
		}
		b.change(dibs.QueueChange{GroupLimit: new(1)})
		running := map[string]int{}
		for _, j := range b.take(3000, 0) {
			if running[j.Group]++; running[j.Group] == 2 {
				t.Errorf("2 jobs of group %s run, the limit is 1", j.Group)
			}
		}
		b.consistent()
	})
}

func TestAConcurrencyLimitHolds(t *testing.T) {
	t.Run("for a transaction that finishes past its lease", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		b.change(dibs.QueueChange{Concurrency: new(1)})
		b.add("", "")
		jobs := b.take(1, 5*time.Second)
		tx := b.begin()
		b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
		b.awaitLeaseEnd(jobs)
		if n := len(b.take(1, 0)); n != 0 {
			t.Error("another job started while the first was finishing")
		}
		b.must(tx.Commit(b.ctx))
		if n := len(b.take(1, 0)); n != 1 {
			t.Error("the place did not become free")
		}
		b.consistent()
	})
	t.Run("over several claims of one transaction", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		b.change(dibs.QueueChange{Concurrency: new(1)})
		b.add("", "")
		inside := b.Tx(b.begin())
		for _, want := range []int{1, 0} {
			if jobs, err := inside.Claim(b.ctx, request(1)); err != nil || len(jobs) != want {
				t.Errorf("claimed %d, want %d: %v", len(jobs), want, err)
			}
		}
	})
	t.Run("in a transaction with an old snapshot", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		b.change(dibs.QueueChange{Concurrency: new(1)})
		b.add("")
		tx := b.beginAs(pgx.RepeatableRead)
		if _, err := b.Tx(tx).Claim(b.ctx, request(1)); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("a claim that cannot count: %v", err)
		}
	})
	t.Run("that is set while a transaction finishes", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		b.add("", "", "")
		jobs := b.take(1, 0)
		tx := b.begin()
		b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
		b.change(dibs.QueueChange{Concurrency: new(2)})
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
		defer cancel()
		got, err := b.Claim(ctx, request(5))
		if err != nil || len(got) != 1 {
			t.Errorf("claimed %d jobs, want 1 without waiting: %v", len(got), err)
		}
	})
}

func TestHeartbeatsDoNotNeedThePoolThatTransactionsUseUp(t *testing.T) {
	b := newBench(t, postgres.Options{MaxConns: 1})
	b.add("")
	jobs := b.take(1, 0)
	err := b.InTx(b.ctx, func(dibs.Tx) error {
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
		defer cancel()
		e, err := b.Extend(ctx, []dibs.Lease{jobs[0].Lease()}, time.Minute)
		if err == nil && len(e.Lost) > 0 {
			err = errors.New("lost")
		}
		return err
	})
	b.must(err)
}

func TestOneLockedJobDoesNotHoldUpTheOutcomesOfOthers(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.add("", "", "")
	jobs := b.take(3, 0)
	tx := b.begin()
	b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{jobs[1].Lease().Complete(nil)}))
	var all []dibs.Outcome
	for _, j := range jobs {
		all = append(all, j.Lease().Complete(nil))
	}
	all = append(all, dibs.Lease{ID: 1 << 40, Token: jobs[0].Token}.Complete(nil))
	var left *dibs.FinishError
	if err := b.Finish(b.ctx, all); !errors.As(err, &left) || !slices.Equal(left.Unwritten, []int64{jobs[1].ID}) || !slices.Equal(left.Lost, []int64{1 << 40}) {
		t.Errorf("the locked job, and one that there is not: %v, %+v", err, left)
	}
	for _, at := range []int{0, 2} {
		if j, err := b.Get(b.ctx, jobs[at].ID); err != nil || j.State != dibs.Completed {
			t.Errorf("job %d is not completed: %v", jobs[at].ID, err)
		}
	}
	b.must(tx.Commit(b.ctx))
	b.consistent()
}

func TestAJobThatDoesNotHoldItsKeyIsGivenBackWithoutIt(t *testing.T) {
	b := newBench(t, postgres.Options{})
	unique := func(priority int) int64 {
		added, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: "u", Priority: &priority}})
		b.must(err)
		return added[0].ID
	}
	first := unique(1)
	b.must(b.Finish(b.ctx, []dibs.Outcome{b.take(1, 0)[0].Lease().Complete(nil)}))
	unique(9)
	if ids, err := b.Requeue(b.ctx, []int64{first}, time.Time{}); err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	tx := b.begin()
	inside := b.Tx(tx)
	jobs, err := inside.Claim(b.ctx, request(1))
	if err != nil || len(jobs) != 1 || jobs[0].ID != first {
		t.Fatal(jobs, err)
	}
	b.must(inside.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Retry("e")}))
	b.must(tx.Commit(b.ctx))
	b.consistent()
}

// beside runs f in a goroutine and returns when f has ended or n sessions of the database
// wait for locks. end waits for f and returns its error.
func (b bench) beside(n int, f func() error) (end func() error) {
	b.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waiting := 0; len(done) == 0 && waiting < n; <-tick.C {
		const count = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
		b.must(b.pool.QueryRow(b.ctx, count).Scan(&waiting))
	}
	return func() error { return <-done }
}

func TestOfTwoOutcomesTheOneThatWaitedIsRefused(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	b.add("")
	lease := b.take(1, 0)[0].Lease()
	first, second := b.begin(), b.begin()
	b.must(b.Tx(first).Finish(b.ctx, []dibs.Outcome{lease.Release()}))
	end := b.beside(1, func() error { return b.Tx(second).Finish(b.ctx, []dibs.Outcome{lease.Retry("e")}) })
	b.must(first.Commit(b.ctx))
	if err := end(); !errors.Is(err, dibs.ErrLeaseLost) {
		t.Errorf("the second outcome of one attempt: %v", err)
	}
	b.must(second.Rollback(b.ctx))
	b.consistent()
}

func TestOfTwoThatEnqueueAKeyTheSecondLearnsOfTheFirst(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	job := []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: "u"}}
	tx := b.begin()
	first, err := b.Tx(tx).Enqueue(b.ctx, job)
	b.must(err)
	b.learnsOf(tx, job, first)
}

// learnsOf enqueues a job again, which waits for the transaction that has enqueued it first.
func (b bench) learnsOf(tx pgx.Tx, job []dibs.NewJob, first []dibs.Enqueued) {
	b.Helper()
	var second []dibs.Enqueued
	end := b.beside(1, func() (err error) {
		second, err = b.Enqueue(b.ctx, job)
		return err
	})
	b.must(tx.Commit(b.ctx))
	b.must(end())
	if want := (dibs.Enqueued{ID: first[0].ID, Existing: true}); second[0] != want {
		b.Errorf("got %+v, want %+v", second[0], want)
	}
	b.consistent()
}

// An admission is held up after its beginning; another one begins meanwhile, and does not
// see what the first will change.
func TestOfTwoThatGiveAPlaceOneDoes(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	b.add("g")
	tx := b.begin()
	_, err := tx.Exec(b.ctx, "select from dibs.wake_list for update")
	b.must(err)
	var running [2][]*dibs.RawJob
	claim := func(i int) func() error {
		return func() (err error) {
			running[i], err = b.Claim(b.ctx, request(5))
			return err
		}
	}
	first := b.beside(1, claim(0))
	b.add("g")
	second := b.beside(2, claim(1))
	b.must(tx.Rollback(b.ctx))
	b.must(first())
	b.must(second())
	if n := len(running[0]) + len(running[1]) + len(b.take(5, 0)); n != 1 {
		t.Errorf("%d jobs of the group run, the limit is 1", n)
	}
	b.consistent()
}

// An outage ends many leases at once. The test asserts no time, but a sweep whose time grows
// with the square of the leases runs into the test's deadline.
func TestAllLeasesCanEndAtOnce(t *testing.T) {
	b := newBench(t, postgres.Options{})
	const n, part = 24_000, 8000
	for range n / part {
		b.add(make([]string, part)...)
	}
	var last []*dibs.RawJob
	for got := 0; got < n; got += len(last) {
		last = b.take(2000, 3*time.Second)
		if len(last) == 0 {
			t.Fatal(fmt.Sprint("claimed only ", got))
		}
	}
	b.awaitLeaseEnd(last)
	_, err := b.Sweep(b.ctx)
	b.must(err)
	if stats, err := b.Stats(b.ctx); err != nil || stats[0].Waiting != n {
		t.Errorf("waiting: %+v, %v", stats, err)
	}
}
