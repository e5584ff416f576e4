package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Many finish at once what others come after.
var flowRaceCases = []oneCase{
	{"two last ones that end at once release their follower", flowLastTwo},
	{"a job enqueued after one that just ends is released", flowLate},
	{"no job of random flows starts too early, and all end", flowRandom},
	{"a thousand end, by many workers, and one follower starts", flowThousand},
	{"a job comes after those of ten calls, and starts once, when all have ended", flowTenCalls},
}

// flowLastTwo finishes the last two jobs that another comes after at the same moment, in two stores, again and again.
func flowLastTwo(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	for range 40 {
		all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("a")), after(dibs.After("a")))
		jobs := t.claimExactly("the first ones", all[:2]...)
		t.runAtOnce(2, func(i int) error { return stores[i].Finish(t.ctx, []dibs.Outcome{jobs[i].Lease().Complete(nil)}) })
		t.complete(t.startsSoon("the follower", all[2])...)
	}
}

// flowLate enqueues a job after another while that one ends.
func flowLate(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	for round := range 40 {
		first := t.enqueue(dibs.NewJob{Kind: "k"})[0]
		job := t.claimExactly("the first", first)[0]
		var follower int64
		t.runAtOnce(2, func(i int) error {
			if i == round%2 {
				return stores[i].Finish(t.ctx, []dibs.Outcome{job.Lease().Complete(nil)})
			}
			done, err := stores[i].Enqueue(t.ctx, []dibs.NewJob{after(dibs.After(first))})
			if err == nil {
				follower = done[0].ID
			}
			return err
		})
		t.complete(t.startsSoon("the follower", follower)...)
	}
}

func flowThousand(t *test) {
	all := t.enqueue(append(copies(1000, after(dibs.Ref("page"))), after(dibs.After("page")))...)
	var left atomic.Int64
	left.Store(1000)
	t.runOnStores(4, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		for left.Load() > 0 {
			jobs, err := db.Claim(ctx, dibs.ClaimRequest{N: 1 + r.IntN(50), Worker: fmt.Sprint("w", i), Lease: time.Hour})
			if err != nil {
				return err
			}
			if err := db.Finish(ctx, outcomes(jobs, completed)); err != nil {
				return err
			}
			left.Add(-int64(len(jobs)))
		}
		return nil
	})
	if left.Load() == 0 { // otherwise one of the goroutines has the follower already
		t.complete(t.startsSoon("the follower", all[1000])...)
	}
	t.inState(dibs.Completed, all[1000])
}

// flowModel knows what jobs of random flows come after, and refuses starts that come too early.
type flowModel struct {
	mu     sync.Mutex
	after  map[int64]map[int64]dibs.Need // of each job, the ones that it comes after
	starts map[int64]int
}

// flowTenCalls has one job come after others of many calls: at night as many as it can come after.
func flowTenCalls(t *test) {
	call := 200
	if needs.AtNight() {
		call = dibs.MaxAfter / 10
	}
	last := dibs.NewJob{Queue: "last", Kind: "k"}
	for range 10 {
		for _, id := range t.enqueue(copies(call, dibs.NewJob{Kind: "k"})...) {
			last.After = append(last.After, dibs.Dep{ID: id})
		}
	}
	id := t.enqueue(last)[0]
	for len(last.After) <= dibs.MaxAfter {
		last.After = append(last.After, dibs.Dep{ID: int64(len(last.After) + 1_000_000)})
	}
	t.refuses("after", last)
	for left := 10 * call; left > 0; { // a claim passes over jobs that a settlement is just marking as followed
		t.inState(dibs.Blocked, id)
		jobs := t.claim(dibs.ClaimRequest{N: call})
		t.complete(jobs...)
		left -= len(jobs)
	}
	t.waitUntil("the job waits for no other", func() bool {
		t.sweep()
		return t.get(id).WaitsFor == 0
	})
	jobs := t.claim(dibs.ClaimRequest{Queue: "last", N: 2})
	equal(t, "jobs that start", len(jobs), 1)
	t.complete(jobs...)
	equal(t, "jobs left", len(t.claim(dibs.ClaimRequest{Queue: "last", N: 2})), 0)
	for after, read := int64(0), 0; ; {
		before, next := t.before(id, after, 1000)
		for _, j := range before {
			equal(t, "state", j.State, dibs.Completed)
		}
		if read, after = read+len(before), next; next == 0 {
			equal(t, "jobs before it", read, 10*call)
			return
		}
	}
}

// met reports whether an end meets a need.
func met(need dibs.Need, end dibs.State) bool {
	return need == dibs.NeedEnded || (need == dibs.NeedCompleted) == (end == dibs.Completed)
}

// start notes the start of a job.
func (m *flowModel) start(ctx context.Context, db admin.Database, id int64) error {
	m.mu.Lock()
	before := m.after[id]
	again := m.starts[id] > 0
	m.starts[id]++
	m.mu.Unlock()
	if again {
		return fmt.Errorf("job %d has started twice", id)
	}
	for other, need := range before {
		j, err := db.Get(ctx, other)
		if err != nil {
			return err
		}
		if !j.State.Final() || !met(need, j.State) {
			return fmt.Errorf("job %d has started, but job %d, needed %s, is %s", id, other, need, j.State)
		}
	}
	return nil
}

// add enqueues some jobs that come after others of the call, or after jobs that exist.
func (m *flowModel) add(ctx context.Context, db admin.Database, r *rand.Rand) error {
	needs := []dibs.Need{dibs.NeedCompleted, dibs.NeedCompleted, dibs.NeedEnded, dibs.NeedFailed}
	m.mu.Lock()
	var existing []int64
	for id := range m.after {
		existing = append(existing, id)
	}
	m.mu.Unlock()
	slices.Sort(existing)
	jobs := make([]dibs.NewJob, 1+r.IntN(6))
	for i := range jobs {
		jobs[i] = dibs.NewJob{Kind: "k", Ref: fmt.Sprint(i), Group: []string{"", "", "g", "h"}[r.IntN(4)], Priority: new(r.IntN(3))}
		for other := range i {
			if r.IntN(3) == 0 {
				jobs[i].After = append(jobs[i].After, dibs.Dep{Ref: fmt.Sprint(other), On: needs[r.IntN(4)]})
			}
		}
		if len(existing) > 0 && r.IntN(4) == 0 {
			jobs[i].After = append(jobs[i].After, dibs.Dep{ID: existing[r.IntN(len(existing))], On: needs[r.IntN(4)]})
		}
	}
	m.mu.Lock() // so that no start is checked before the edges are known
	defer m.mu.Unlock()
	done, err := db.Enqueue(ctx, jobs)
	if err != nil {
		return err
	}
	for i, e := range done {
		m.after[e.ID] = make(map[int64]dibs.Need)
		for _, d := range jobs[i].After {
			other := d.ID
			if d.Ref != "" {
				for k := range i {
					if jobs[k].Ref == d.Ref {
						other = done[k].ID
					}
				}
			}
			m.after[e.ID][other] = d.On
		}
	}
	return nil
}

// work claims jobs and ends them, until all jobs have ended.
func (m *flowModel) work(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
	return drain(ctx, db, r, i, func(jobs []*dibs.RawJob) error {
		var all []dibs.Outcome
		for _, j := range jobs {
			if err := m.start(ctx, db, j.ID); err != nil {
				return err
			}
			l := j.Lease()
			all = append(all, []dibs.Outcome{l.Complete(nil), l.Complete(nil), l.Complete(nil), l.Die("e"), l.Cancel("c")}[r.IntN(5)])
		}
		return db.Finish(ctx, all)
	})
}

func flowRandom(t *test) {
	m := &flowModel{after: make(map[int64]map[int64]dibs.Need), starts: make(map[int64]int)}
	t.runOnStores(6, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		if i >= 3 {
			return m.work(ctx, db, r, i)
		}
		for range 25 {
			if err := m.add(ctx, db, r); err != nil {
				return err
			}
		}
		return m.work(ctx, db, r, i)
	})
	for id, before := range m.after {
		j := t.get(id)
		possible := true
		for other, need := range before {
			possible = possible && met(need, t.get(other).State)
		}
		switch {
		case !j.State.Final():
			t.Errorf("job %d is %s", id, j.State)
		case possible && m.starts[id] == 0:
			t.Errorf("job %d is %s because of %d, but could have started", id, j.State, j.Cause)
		case !possible && (m.starts[id] > 0 || j.State != dibs.Cancelled || j.Cause == 0):
			t.Errorf("job %d is %s because of %d after %d starts, but should have been cancelled", id, j.State, j.Cause, m.starts[id])
		}
	}
}
