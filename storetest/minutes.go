package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// What happened in each minute. Upkeep moves it from where it is counted to where it is kept.
// Invariants: whenever it is read, each thing is in it exactly once; a process that reads or
// keeps it waits for nobody.
var historyCases = []oneCase{
	{"the history of random work equals the truth, however many processes move it", historyExact},
	{"what upkeep moves to the history counts once", historyOnce},
	{"each end of an attempt counts in its minute", historyEnds},
	{"each of the last minutes is there, up to this one", historyMinutes},
	{"the history forgets old minutes", historyForgets},
	{"a history that nobody can have is refused", badHistory},
}

// ago is SQL that makes all counts look some minutes older. It moves the history to a time far from all others, and
// from there back, since no minute may be in it twice, not even until the end of a statement.
func (t *test) ago(minutes int) []string {
	const far = 100_000
	move := t.one("update %%shistory set minute = minute - interval '%d minutes'", "update %%shistory set minute = minute - %d")
	return []string{
		fmt.Sprintf(t.one("update %%stally set at = at - interval '%d minutes'", "update %%stally set minute = minute - %d where minute > 0"), minutes),
		fmt.Sprintf(move, far+minutes),
		fmt.Sprintf(move, -far),
	}
}

// happened are the figures of a Minute that can be added up.
type happened struct{ enqueued, claimed, succeeded, failed, died int64 }

// add adds what an attempt's outcome counts as.
func (h *happened) add(j *dibs.RawJob, o dibs.Outcome) {
	after := j.After(o)
	switch {
	case after == dibs.Completed:
		h.succeeded++
	case o.Ending == dibs.EndRetry && after != dibs.Cancelled, after == dibs.Dead:
		h.failed++
	}
	if after == dibs.Dead {
		h.died++
	}
}

// historySum adds up all minutes of each queue.
func (t *test) historySum(db admin.Database, queues ...string) (map[string]happened, error) {
	minutes, err := db.History(t.ctx, queues, admin.HistoryKept)
	sum := map[string]happened{}
	for _, m := range minutes {
		h := sum[m.Queue]
		h.enqueued, h.claimed, h.succeeded = h.enqueued+m.Enqueued, h.claimed+m.Claimed, h.succeeded+m.Succeeded
		h.failed, h.died = h.failed+m.Failed, h.died+m.Died
		sum[m.Queue] = h
	}
	return sum, err
}

func historyExact(t *test) {
	const rounds, processes = 4, 3
	queues := []string{"a", "b", "c"}
	t.set("b", dibs.QueueChange{KeepDead: new(time.Duration), KeepCompleted: new(time.Duration)})
	truth := map[string]happened{}
	var mu sync.Mutex
	note := func(queue string, f func(*happened)) {
		mu.Lock()
		defer mu.Unlock()
		for _, q := range []string{queue, ""} {
			h := truth[q]
			f(&h)
			truth[q] = h
		}
	}
	expect := func(when string, db admin.Database) error {
		got, err := t.historySum(db, queues...)
		if err != nil {
			return err
		}
		all, err := t.historySum(db)
		got[""] = all[""]
		mu.Lock()
		defer mu.Unlock()
		for _, q := range append(queues, "") {
			if got[q] != truth[q] {
				return fmt.Errorf("%s: queue %q has %+v in the history, %+v happened", when, q, got[q], truth[q])
			}
		}
		return err
	}
	r := t.random()
	for round := range rounds {
		stores := []admin.Database{t.db}
		for range processes {
			stores = append(stores, t.Another(t))
		}
		seed := r.Uint64()
		t.runAtOnce(len(stores), func(i int) error {
			return workAndNote(t.ctx, stores[i], rand.New(rand.NewPCG(seed, uint64(i))), queues, note)
		})
		t.must(expect(fmt.Sprintf("round %d", round), t.db))
		t.runSQL(t.ago(10 + round)...)
		stores = nil
		for range processes {
			stores = append(stores, t.Another(t))
		}
		t.runAtOnce(2*processes, func(i int) error {
			db := stores[i%processes]
			if i < processes {
				_, err := db.Sweep(t.ctx)
				return err
			}
			return expect(fmt.Sprintf("round %d, while %d processes sweep", round, processes), db)
		})
		t.upkeep()
		t.must(expect(fmt.Sprintf("round %d, after upkeep", round), t.db))
		twice, err := t.historySum(t.db, "a", "a")
		t.must(err)
		equal(t, "enqueued into a queue that is named, and listed, twice", twice["a"].enqueued, 2*truth["a"].enqueued)
	}
}

// workAndNote works, and notes what it has done. No lease ends while it does.
func workAndNote(ctx context.Context, db admin.Database, r *rand.Rand, queues []string, note func(string, func(*happened))) error {
	for range 15 {
		q := queues[r.IntN(len(queues))]
		jobs := copies(1+r.IntN(6), dibs.NewJob{Queue: q, Kind: "k", MaxAttempts: 1 + r.IntN(2)})
		if _, err := db.Enqueue(ctx, jobs); err != nil {
			return err
		}
		note(q, func(h *happened) { h.enqueued += int64(len(jobs)) })
		claimed, err := db.Claim(ctx, dibs.ClaimRequest{Queue: q, Worker: "w", N: 1 + r.IntN(6), Lease: time.Hour})
		if err != nil {
			return err
		}
		note(q, func(h *happened) { h.claimed += int64(len(claimed)) })
		var outcomes []dibs.Outcome
		for _, j := range claimed {
			outcomes = append(outcomes, endings(j.Lease())[r.IntN(7)])
		}
		if err := db.Finish(ctx, outcomes); len(outcomes) > 0 && err != nil {
			return err
		}
		note(q, func(h *happened) {
			for i, j := range claimed {
				h.add(j, outcomes[i])
			}
		})
		if r.IntN(4) == 0 {
			if _, err := db.Sweep(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func historyOnce(t *test) {
	expect := func(when string) {
		t.Helper()
		got, err := t.historySum(t.db)
		t.must(err)
		equal(t, when, got[""].enqueued, int64(2))
		equal(t, "waiting, "+when, t.stats(dibs.DefaultQueue).Waiting, int64(2))
	}
	t.enqueue(dibs.NewJob{Kind: "k"})
	t.runSQL(t.ago(10)...)
	t.enqueue(dibs.NewJob{Kind: "k"})
	t.runSQL(t.ago(4)...) // now the statistics show only the second job
	expect("before upkeep")
	equal(t, "enqueued lately", t.stats(dibs.DefaultQueue).Enqueued, int64(1))
	for range 3 {
		t.upkeep()
		expect("after upkeep")
		equal(t, "enqueued lately", t.stats(dibs.DefaultQueue).Enqueued, int64(1))
	}
	t.runSQL(t.ago(9)...)
	for range 2 {
		t.upkeep()
		expect("after more upkeep")
	}
}

func historyEnds(t *test) {
	for _, q := range []string{"kept", "not kept"} {
		if q != "kept" {
			t.set(q, dibs.QueueChange{KeepDead: new(time.Duration)})
		}
		t.enqueue(copies(6, dibs.NewJob{Queue: q, Kind: "k", MaxAttempts: 1})...)
		jobs := t.claim(dibs.ClaimRequest{Queue: q, N: 6})
		at := jobs[0].ClaimedAt
		t.waitUntilTime(at.Add(100 * time.Millisecond))
		t.finish(
			jobs[0].Lease().Complete(nil), jobs[1].Lease().Retry("e"), jobs[2].Lease().Die("e"),
			jobs[3].Lease().Cancel("e"), jobs[4].Lease().Release(),
		)
		t.expire(jobs[5])
		t.sweep()
		want := map[string]happened{q: {enqueued: 6, claimed: 6, succeeded: 1, failed: 3, died: 3}}
		got, err := t.historySum(t.db, q)
		t.must(err)
		equal(t, "history", got, want)
		minutes, err := t.db.History(t.ctx, []string{q}, 0)
		t.must(err)
		for _, m := range minutes {
			if m.Succeeded > 0 && (m.AvgRun < 25*time.Millisecond || m.AvgRun > patience) { // a lease that has ended adds no time
				t.Errorf("%v: the attempts took %v on average", m.At, m.AvgRun)
			}
		}
	}
	t.requeue(ids(t.list(admin.Filter{Queue: "kept", State: dibs.Dead}))...)
	got, err := t.historySum(t.db, "kept")
	t.must(err)
	equal(t, "died, after they were requeued", got["kept"].died, int64(3))
	t.runSQL("delete from %sfinished", "delete from %sjob")
	t.repair(t.db)
	got, err = t.historySum(t.db, "kept")
	t.must(err)
	equal(t, "after counts were mended", got["kept"], happened{enqueued: 6, claimed: 6, succeeded: 1, failed: 3, died: 3})
}

func historyMinutes(t *test) {
	id := t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})[0]
	before := t.get(id).CreatedAt.Truncate(time.Minute)
	minutes, err := t.db.History(t.ctx, []string{"q", "nobody's", "q"}, 0)
	t.must(err)
	equal(t, "entries of an hour", len(minutes), 3*61)
	last := minutes[len(minutes)-1].At
	if last.Before(before) || last.After(before.Add(patience)) {
		t.Fatalf("the last minute began at %v, a job was enqueued in that of %v", last, before)
	}
	sum := int64(0)
	for i, m := range minutes {
		if want := last.Add(time.Duration(i/3-60) * time.Minute); !m.At.Equal(want) || m.Queue != []string{"q", "nobody's", "q"}[i%3] {
			t.Fatalf("entry %d is of queue %s at %v, want %v", i, m.Queue, m.At, want)
		}
		if sum += m.Enqueued; m.Enqueued > 0 && !m.At.Equal(before) {
			t.Fatalf("a job of %v was counted at %v", before, m.At)
		}
	}
	equal(t, "enqueued, in both entries", sum, int64(2))
	minutes, err = t.db.History(t.ctx, nil, time.Nanosecond)
	t.must(err)
	equal(t, "entries of less than a minute, of all queues", len(minutes), 2)
}

func historyForgets(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "k"})
	t.runSQL(t.ago(90)...)
	t.upkeep()
	got, err := t.historySum(t.db)
	t.must(err)
	equal(t, "enqueued 90 minutes ago", got[""].enqueued, int64(2))
	t.runSQL(t.ago(40)...)
	t.enqueue(dibs.NewJob{Kind: "k"})
	t.runSQL(t.ago(10)...)
	t.upkeep()
	got, err = t.historySum(t.db)
	t.must(err)
	equal(t, "enqueued in two hours", got[""].enqueued, int64(1))
	tx := t.beginTx()
	n, err := tx.Count(t.ctx, t.tables("select count(*) from %shistory"))
	t.must(err)
	t.must(tx.Rollback())
	equal(t, "rows kept: a minute of the queue, and of all", n, 2)
	t.enqueue(dibs.NewJob{Kind: "k"})
	t.runSQL(t.ago(300)...) // nobody has swept for hours
	t.upkeep()
	got, err = t.historySum(t.db)
	t.must(err)
	equal(t, "after hours without upkeep", got[""], happened{})
	equal(t, "waiting", t.stats(dibs.DefaultQueue).Waiting, int64(4))
}

func badHistory(t *test) {
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprint("q", i)
	}
	for _, c := range []struct {
		field  string
		since  time.Duration
		queues []string
	}{
		{"since", -time.Second, nil}, {"since", admin.HistoryKept + 1, nil}, {"queues", 0, many}, {"queues[1]", 0, []string{"q", ""}},
	} {
		_, err := t.db.History(t.ctx, c.queues, c.since)
		invalid(t, err, c.field)
	}
}
