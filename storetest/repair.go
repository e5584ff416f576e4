package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// If somebody deletes or inserts rows with SQL, counts are wrong and groups wait for jobs that are gone. Check
// finds both, and Repair corrects them.
var repairCases = []oneCase{
	{"counts are mended after rows were deleted and inserted by hand", repairCounts},
	{"a group goes on whose running job was deleted by hand", repairGroups},
	{"a wide payload goes whose job was deleted by hand", repairPayloads},
	{"with nothing wrong nothing is changed", repairNothing},
	{"counts are exact that are mended while others work, by two at once", repairBesideWork},
}

type repairer interface {
	Repair(ctx context.Context) ([]string, error)
}

// repair calls the store's method Repair. Every store on dibs' own tables has one.
func (t *test) repair(db admin.Database) []string {
	t.Helper()
	r, ok := db.(repairer)
	if !ok {
		t.Fatalf("%T has no Repair", db)
	}
	mended, err := r.Repair(t.ctx)
	t.must(err)
	return mended
}

// runSQL runs statements in which %sjob and %sfinished stand for the tables.
func (t *test) runSQL(statements ...string) {
	t.Helper()
	tx := t.beginTx()
	for _, text := range statements {
		t.must(tx.Exec(t.ctx, t.tables(text)))
	}
	t.must(tx.Commit())
}

func (t *test) tables(text string) string {
	prefix := "" // on PostgreSQL, the schema dibs is in the search_path
	if t.Database != PostgreSQL.Database {
		prefix = "dibs_"
	}
	return fmt.Sprintf(text, prefix)
}

func (t *test) check() []string {
	t.Helper()
	found, err := t.db.Check(t.ctx)
	t.must(err)
	return slices.Sorted(slices.Values(found))
}

func repairCounts(t *test) {
	t.enqueue(append(copies(10, dibs.NewJob{Queue: "a", Kind: "k"}), copies(5, dibs.NewJob{Queue: "b", Kind: "k"})...)...)
	jobs := t.claim(dibs.ClaimRequest{Queue: "a", N: 5})
	t.finish(jobs[0].Lease().Complete(nil), jobs[1].Lease().Complete(nil), jobs[2].Lease().Die("e"))
	t.runSQL(
		"delete from %sjob where queue = 'a' and token is null",
		fmt.Sprintf("delete from %%sjob where id = %d", jobs[3].ID),
		fmt.Sprintf("delete from %%sfinished where id = %d", jobs[0].ID),
		fmt.Sprintf("update %%sfinished set queue = 'b', state = 'cancelled' where id = %d", jobs[2].ID),
	)
	want := []string{
		"queue a: counted 1 dead, there are 0",
		"queue a: counted 2 completed, there are 1",
		"queue a: counted 2 running, there are 1",
		"queue a: counted 5 waiting, there are 0",
		"queue b: counted 0 cancelled, there are 1",
	}
	equal(t, "found", apartFromPayloads(t.check()), want)
	equal(t, "mended", apartFromPayloads(slices.Sorted(slices.Values(t.repair(t.db)))), want)
	equal(t, "found after that", t.check(), []string(nil))
	t.expectCounts()
	t.finish(jobs[4].Lease().Complete(nil))
	t.expectCounts()
	t.sweep()
	t.expectCounts()
}

func repairGroups(t *test) {
	t.enqueue(grouped("g"), grouped("g"), grouped("h"))
	jobs := t.claim(dibs.ClaimRequest{N: 1})
	equal(t, "the group of the first job", jobs[0].Group, "g")
	t.runSQL(fmt.Sprintf("delete from %%sjob where id = %d", jobs[0].ID))
	want := []string{
		"queue default, group g: 0 of 1 places held, 1 jobs blocked and nobody told",
		"queue default: counted 1 running, there are 0",
	}
	equal(t, "found", apartFromPayloads(t.check()), want)
	equal(t, "mended", apartFromPayloads(slices.Sorted(slices.Values(t.repair(t.db)))), want)
	equal(t, "found after that", t.check(), []string(nil))
	t.untilClaimed(2)
}

// apartFromPayloads leaves out findings about payloads: only stores that keep narrow payloads in a table of their own,
// too, have them.
func apartFromPayloads(findings []string) []string {
	return slices.DeleteFunc(findings, func(f string) bool { return strings.HasSuffix(f, "payloads of jobs that are gone") })
}

func repairPayloads(t *test) {
	all := t.enqueue(wideJobs("q", 12, false)...)
	t.runSQL("delete from %sjob where queue = 'q'")
	found := t.check()
	equal(t, "mended", slices.Sorted(slices.Values(t.repair(t.db))), found)
	equal(t, "found after that", t.check(), []string(nil))
	if len(found) == 0 || len(found) > 2 { // the count, and the payloads where they have a table
		t.Errorf("after %d jobs were deleted, it found %q", len(all), found)
	}
}

// untilClaimed claims until it has claimed n jobs.
func (t *test) untilClaimed(n int) {
	t.Helper()
	for n > 0 {
		n -= len(t.claim(dibs.ClaimRequest{N: n}))
		t.must(t.ctx.Err())
	}
}

func repairNothing(t *test) {
	var none context.Context
	if _, err := t.db.(repairer).Repair(none); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("without a context it gave %v", err)
	}
	equal(t, "mended in an empty database", t.repair(t.db), []string{})
	t.retryLate("q0")
	t.retryLate("q1")
	t.history()
	before, err := t.db.Stats(t.ctx)
	t.must(err)
	equal(t, "mended", t.repair(t.db), []string{})
	after, err := t.db.Stats(t.ctx)
	t.must(err)
	for i := range before {
		for _, s := range []*admin.QueueStats{&before[i], &after[i]} {
			s.OldestAge, s.Window, s.Throughput = 0, 0, 0
		}
	}
	equal(t, "statistics", after, before)
}

// Two stores repair at once after rows were deleted by hand, while others enqueue, claim and
// finish. Invariant: after both repairs a check finds nothing. It would find a correction that
// both had made, or that was computed from another snapshot.
func repairBesideWork(t *test) {
	t.enqueue(append(copies(20, dibs.NewJob{Kind: "k"}), copies(20, grouped("g"))...)...)
	other := t.Another(t)
	var work sync.WaitGroup
	ended := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(ended)
		work.Wait()
	})
	defer end()
	for range 2 {
		work.Go(func() { t.workUntil(ended) })
	}
	for range 10 {
		t.runSQL("delete from %[1]sjob where id in (select max(id) from %[1]sjob union select min(id) from %[1]sjob)")
		var both sync.WaitGroup
		for _, db := range []admin.Database{t.db, other} {
			both.Go(func() {
				if _, err := db.(repairer).Repair(t.ctx); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		equal(t, "found", t.check(), []string(nil))
	}
	end()
	equal(t, "found at the end", t.check(), []string(nil))
	t.expectCounts()
}

// workUntil enqueues, claims and finishes jobs, which others may delete meanwhile.
func (t *test) workUntil(end <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		default:
		}
		_, err := t.db.Enqueue(t.ctx, append(copies(3, dibs.NewJob{Kind: "k"}), grouped("g")))
		jobs, err2 := t.db.Claim(t.ctx, dibs.ClaimRequest{Queue: dibs.DefaultQueue, Worker: "w", N: 3, Lease: time.Hour})
		err3 := t.db.Finish(t.ctx, outcomes(jobs, func(l dibs.Lease) dibs.Outcome { return l.Complete(nil) }))
		if errors.Is(err3, dibs.ErrLeaseLost) {
			err3 = nil
		}
		if err := errors.Join(err, err2, err3); err != nil {
			t.Error(err)
			return
		}
	}
}
