package storetest

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Requirement 4: statistics made from the columns: wait, run time, throughput.
// Requirement 5: they never lock a row and never slow a claim.
var statsCases = []oneCase{
	{"each state is counted", statsStates},
	{"an empty database has none, an empty queue zeros", statsEmpty},
	{"the oldest age is that of the oldest due job", statsOldest},
	{"enqueued, claimed, succeeded and failed attempts are counted", statsAttempts},
	{"wait and run times are averages over the attempts", statsTimes},
	{"counting scheduled jobs stops at the cap and says so", statsCap},
	{"after a random history the counts equal reality", statsHistory},
}

func statsStates(t *test) {
	t.enqueue(append(copies(3, grouped("g")), copies(9, dibs.NewJob{Kind: "k"})...)...)
	later := grouped("h")
	later.Delay = time.Hour
	t.enqueue(later, dibs.NewJob{Kind: "k", Delay: time.Hour})
	jobs := t.claim(dibs.ClaimRequest{N: 8})
	equal(t, "claimed jobs", len(jobs), 8)
	t.finish(
		jobs[1].Lease().Complete(nil), jobs[2].Lease().Complete(nil), jobs[3].Lease().Complete(nil),
		jobs[4].Lease().Die("e"), jobs[5].Lease().Die("e"), jobs[6].Lease().Cancel("e"),
	)
	s := t.stats(dibs.DefaultQueue)
	equal(t, "waiting, scheduled, blocked, running, completed, dead, cancelled",
		[]int64{s.Waiting, s.Scheduled, s.Blocked, s.Running, s.Completed, s.Dead, s.Cancelled},
		[]int64{4, 2, 2, 2, 3, 2, 1})
	equal(t, "more scheduled", s.ScheduledMore, false)
	t.expectCounts()
}

func statsEmpty(t *test) {
	all, err := t.db.Stats(t.ctx)
	t.must(err)
	equal(t, "queues", len(all), 0)
	t.set("q", dibs.QueueChange{})
	s := t.stats("q")
	s.Window = 0
	equal(t, "statistics", s, admin.QueueStats{Queue: "q"})
}

func statsOldest(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k", Delay: time.Hour})
	equal(t, "without a due job", t.stats(dibs.DefaultQueue).OldestAge, time.Duration(0))
	first := t.enqueue(dibs.NewJob{Kind: "k", Priority: new(500)})[0]
	at := t.get(first).RunAt
	t.waitUntilTime(at.Add(300 * time.Millisecond))
	t.enqueue(dibs.NewJob{Kind: "k", Priority: new(1)})
	if age := t.stats(dibs.DefaultQueue).OldestAge; age < 300*time.Millisecond || age > patience {
		t.Fatalf("oldest age is %v, want 300ms or somewhat more", age)
	}
	t.complete(t.claim(dibs.ClaimRequest{N: 2})...)
	equal(t, "when none is due", t.stats(dibs.DefaultQueue).OldestAge, time.Duration(0))
}

func statsAttempts(t *test) {
	t.enqueue(copies(8, dibs.NewJob{Kind: "k", MaxAttempts: 1})...)
	jobs := t.claim(dibs.ClaimRequest{N: 8})
	t.finish(
		jobs[0].Lease().Complete(nil), jobs[1].Lease().Complete(nil), jobs[2].Lease().Complete(nil),
		jobs[3].Lease().Retry("e"), jobs[4].Lease().Die("e"), jobs[5].Lease().Release(), jobs[6].Lease().Snooze(time.Hour),
	)
	t.expire(jobs[7])
	t.sweep()
	s := t.stats(dibs.DefaultQueue)
	equal(t, "enqueued, claimed, succeeded, failed", []int64{s.Enqueued, s.Claimed, s.Succeeded, s.Failed}, []int64{8, 8, 3, 3})
	if s.Window <= 0 || s.Throughput <= 0 {
		t.Fatalf("window %v, throughput %v", s.Window, s.Throughput)
	}
}

func statsTimes(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	t.waitUntilTime(t.list(admin.Filter{Queue: dibs.DefaultQueue})[0].RunAt.Add(200 * time.Millisecond))
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	t.waitUntilTime(jobs[0].ClaimedAt.Add(300 * time.Millisecond))
	t.finish(jobs[0].Lease().Complete(nil), jobs[1].Lease().Die("e"))
	s := t.stats(dibs.DefaultQueue)
	if s.AvgWait < 200*time.Millisecond || s.AvgWait > patience {
		t.Fatalf("average wait is %v, want 200ms or somewhat more", s.AvgWait)
	}
	if s.AvgRun < 300*time.Millisecond || s.AvgRun > patience {
		t.Fatalf("average run is %v, want 300ms or somewhat more", s.AvgRun)
	}
}

func statsCap(t *test) {
	t.enqueue(copies(admin.ScheduledCap, dibs.NewJob{Kind: "k", Delay: time.Hour})...)
	s := t.stats(dibs.DefaultQueue)
	equal(t, "at the cap", []any{s.Scheduled, s.ScheduledMore}, []any{int64(admin.ScheduledCap), false})
	t.enqueue(dibs.NewJob{Kind: "k", Delay: time.Hour})
	s = t.stats(dibs.DefaultQueue)
	equal(t, "over the cap", []any{s.Scheduled, s.ScheduledMore, s.Waiting}, []any{int64(admin.ScheduledCap), true, int64(admin.ScheduledCap + 1)})
}

// expectCounts expects the counts of all queues to equal the jobs that List returns.
func (t *test) expectCounts() {
	t.Helper()
	all, err := t.db.Stats(t.ctx)
	t.must(err)
	for _, s := range all {
		got := map[dibs.State]int64{
			dibs.Waiting: s.Waiting, dibs.Blocked: s.Blocked, dibs.Running: s.Running,
			dibs.Completed: s.Completed, dibs.Dead: s.Dead, dibs.Cancelled: s.Cancelled,
		}
		for _, state := range states {
			n := len(t.listPaged(admin.Filter{Queue: s.Queue, State: state, Limit: 1000}, func() {}))
			if got[state] != int64(n) {
				t.Fatalf("queue %s: %d %s jobs are counted, %d are there", s.Queue, got[state], state, n)
			}
		}
	}
}

// Random calls change the states of jobs in two queues. Invariant: after each step, the counts
// equal the jobs in the database.
func statsHistory(t *test) {
	r := t.random()
	queues := []string{"a", "b"}
	t.set("b", dibs.QueueChange{Concurrency: new(7), GroupLimit: new(2), Strict: new(true), KeepCompleted: new(time.Duration)})
	var held []*dibs.RawJob
	var all []int64
	randomIDs := func(n int) []int64 {
		var out []int64
		for range min(n, len(all)) {
			out = append(out, all[r.IntN(len(all))])
		}
		return unique(out)
	}
	steps := []func(){
		func() { all = append(all, t.randomJobs(r.IntN)...) },
		func() { held = append(held, t.claim(dibs.ClaimRequest{Queue: queues[r.IntN(2)], N: 1 + r.IntN(8)})...) },
		func() {
			r.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
			n := min(len(held), 1+r.IntN(5))
			var batch []dibs.Outcome
			for _, j := range held[:n] {
				batch = append(batch, endings(j.Lease())[r.IntN(7)])
			}
			held = held[n:]
			_ = t.db.Finish(t.ctx, batch) // some leases are lost
		},
		func() {
			if len(held) > 0 {
				t.extend(dibs.MinLease, held[0].Lease()) // the worker crashes: nobody finishes the job
				held = held[1:]
			}
		},
		func() { t.sweep() },
		func() { t.cancel(randomIDs(3)...) },
		func() { t.requeue(randomIDs(5)...) },
		func() { t.edit(admin.Edit{Priority: new(r.IntN(3))}, randomIDs(3)...) },
		func() { t.prune(queues[r.IntN(2)], dibs.Dead, 0) },
		func() {
			held = append(held, t.resume(dibs.ClaimRequest{Queue: queues[r.IntN(2)], Worker: "w", Lease: time.Hour})...)
		},
		func() {
			tx := t.beginTx()
			t.claimOn(tx, dibs.ClaimRequest{Queue: "a", N: 1 + r.IntN(4)})
			t.must([]func() error{tx.Commit, tx.Rollback}[r.IntN(2)]())
		},
		func() { t.setGroup("a", "g0", r.IntN(4)) },
	}
	for range 250 {
		steps[r.IntN(len(steps))]()
		if r.IntN(5) == 0 {
			t.expectCounts()
		}
	}
	t.expectCounts()
}

// randomJobs enqueues some random jobs.
func (t *test) randomJobs(intn func(int) int) []int64 {
	t.Helper()
	var batch []dibs.NewJob
	for range 1 + intn(12) {
		j := dibs.NewJob{Queue: []string{"a", "b"}[intn(2)], Kind: "k", Priority: new(intn(3)), MaxAttempts: 1 + intn(3)}
		if intn(2) == 0 {
			j.Group = []string{"g0", "g1", "g2"}[intn(3)]
		}
		if intn(5) == 0 {
			j.Delay = time.Duration(intn(50)) * time.Millisecond
		}
		if intn(5) == 0 {
			j.UniqueKey = []string{"u0", "u1"}[intn(2)]
		}
		batch = append(batch, j)
	}
	done, err := t.db.Enqueue(t.ctx, batch)
	t.must(err)
	var inserted []int64
	for _, e := range done {
		if !e.Existing {
			inserted = append(inserted, e.ID)
		}
	}
	return inserted
}

func unique(ids []int64) []int64 {
	seen := map[int64]bool{}
	var out []int64
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}
