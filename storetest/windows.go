package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Unique keys that are held for a period. When a window of the calendar ends is computed, and
// tested, in internal/checks.
var windowCases = []oneCase{
	{"a key is held for its period, whatever becomes of the job", windowHeld},
	{"a period belongs to its queue and keeps out jobs with a period", windowOthers},
	{"a key is held beyond its period while its job lives", windowLive},
	{"a window of the calendar holds the key of its jobs", windowCalendar},
	{"a large batch has one job for each key and period", windowBulk},
	{"of many who enqueue at once none enqueues a key twice in its period", windowRace},
}

var txWindowCases = []oneCase{
	{"a period of a transaction that rolled back has not begun", txWindowRollback},
	{"who meets a period of an open transaction learns what became of it", txWindowOpen},
	{"a job is replaced if and only if the transaction commits", txWindowReplace},
}

// throttled is a job that holds its key for a period.
func throttled(key string, period time.Duration) dibs.NewJob {
	return dibs.NewJob{Kind: "k", UniqueKey: key, UniqueFor: period}
}

func windowHeld(t *test) {
	const period = 300 * time.Millisecond
	t.set("deleted", dibs.QueueChange{KeepCompleted: new(time.Duration(0)), KeepDead: new(time.Duration(0)), KeepCancelled: new(time.Duration(0))})
	for _, queue := range []string{dibs.DefaultQueue, "deleted"} {
		long, short := throttled("long", time.Hour), throttled("short", period)
		long.Queue, short.Queue = queue, queue
		all := t.enqueue(long, short)
		created := t.get(all[1]).CreatedAt
		t.freeAt(all[0], time.Hour)
		t.enqueueDuplicate(all[0], long)
		jobs := t.claim(dibs.ClaimRequest{Queue: queue, N: 1})
		t.enqueueDuplicate(all[0], long)
		t.finish(jobs[0].Lease().Die("e"))
		t.enqueueDuplicate(all[0], long)
		if queue == dibs.DefaultQueue {
			t.freeAt(all[0], time.Hour)
		}
		t.cancel(all...)
		t.prune("", "", 0)
		t.sweep()
		t.enqueueDuplicate(all[0], long)
		var next dibs.Enqueued
		t.waitUntil("the period has passed", func() bool {
			got, err := t.db.Enqueue(t.ctx, []dibs.NewJob{short})
			t.must(err)
			next = got[0]
			return !next.Existing
		})
		if d := t.get(next.ID).CreatedAt.Sub(created); d < period {
			t.Fatalf("the next job came %v after the first, the period is %v", d, period)
		}
		t.enqueueDuplicate(all[0], long)
	}
}

// freeAt expects that a job's period is that long from its enqueueing on.
func (t *test) freeAt(id int64, period time.Duration) {
	t.Helper()
	j := t.get(id)
	if d := j.UniqueFreeAt.Sub(j.CreatedAt); (d - period).Abs() > time.Minute {
		t.Fatalf("the key of job %d, enqueued at %v, is free at %v", id, j.CreatedAt, j.UniqueFreeAt)
	}
}

func windowOthers(t *test) {
	a, b := throttled("u", time.Hour), throttled("u", time.Hour)
	b.Queue = "b"
	t.complete(t.claimExactly("the first", t.enqueue(a)...)...)
	t.enqueue(b)
	plain := t.enqueue(keyed("u"))[0] // it has no period, and no live job holds the key
	t.enqueueDuplicate(plain, a)
	t.enqueueDuplicate(plain, keyed("u"))
}

func windowLive(t *test) {
	job := throttled("u", time.Millisecond)
	id := t.enqueue(job)[0]
	t.waitUntilTime(t.get(id).CreatedAt.Add(time.Millisecond))
	t.enqueueDuplicate(id, job)
	t.sweep()
	t.complete(t.claimExactly("the first", id)...)
	next := t.enqueue(job)[0]
	claimed := throttled("v", time.Hour)
	claimed.UniqueUntil = dibs.UntilClaimed
	t.enqueueDuplicate(next, job)
	second := t.enqueue(claimed)[0]
	t.claim(dibs.ClaimRequest{N: 2})
	t.enqueueDuplicate(second, claimed)
}

func windowCalendar(t *test) {
	for _, window := range []string{"hour", "day", "week", "month", "day in Europe/Berlin", "month in Pacific/Kiritimati"} {
		job := dibs.NewJob{Kind: "k", UniqueKey: window, UniqueWindow: window}
		first := t.enqueue(job)[0]
		t.cancel(first)
		got, err := t.db.Enqueue(t.ctx, []dibs.NewJob{job})
		t.must(err)
		if !got[0].Existing { // the window may have ended in between
			zone, err := time.LoadLocation(map[string]string{"day in Europe/Berlin": "Europe/Berlin", "month in Pacific/Kiritimati": "Pacific/Kiritimati"}[window])
			t.must(err)
			a, b := t.get(first).CreatedAt.In(zone), t.get(got[0].ID).CreatedAt.In(zone)
			if a.Hour() == b.Hour() {
				t.Fatalf("two jobs of the window %q, of %v and %v", window, a, b)
			}
		}
	}
}

func windowBulk(t *test) {
	const keys, each = 150, 4
	var jobs []dibs.NewJob
	for i := range keys * each {
		j := throttled(fmt.Sprint(i%keys), time.Hour)
		if i%3 == 0 {
			j.IfHeld = dibs.HeldReplace
		}
		j.Payload = i
		jobs = append(jobs, j)
	}
	for round := range 3 {
		done, err := t.db.Enqueue(t.ctx, jobs)
		t.must(err)
		for i, e := range done {
			equal(t, "existing", e.Existing, round > 0 || i >= keys)
			equal(t, "id", e.ID, done[i%keys].ID)
			equal(t, "replaced", e.Replaced, e.Existing && i%3 == 0 && round < 2)
		}
		if round == 1 {
			t.complete(t.claim(dibs.ClaimRequest{N: 1000})...)
		}
	}
	for _, j := range t.list(admin.Filter{State: dibs.Completed, Limit: 1000}) {
		last := 0
		for i := range jobs {
			if jobs[i].UniqueKey == j.UniqueKey && (i < keys || i%3 == 0) {
				last = i
			}
		}
		equal(t, "payload of key "+j.UniqueKey, string(j.Payload), fmt.Sprint(last))
	}
}

// windowRace has callers of two stores enqueue few keys all the time, alone and in batches, in
// transactions that commit or roll back, while others run the jobs. Of the jobs of one key, in the
// order in which they were created, none may come in the period of the one before.
func windowRace(t *test) {
	const callers, rounds, period = 8, 60, 40 * time.Millisecond
	stores := []admin.Database{t.db, t.Another(t)}
	seed := t.random().Uint64()
	answers := make([][]dibs.Enqueued, callers)
	t.runAtOnce(callers+2, func(i int) error {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		for range rounds {
			if i >= callers {
				if err := t.completeSome(stores[i%2]); err != nil {
					return err
				}
				continue
			}
			done, err := t.enqueueSomehow(stores[i%2], r, period)
			if err != nil {
				return err
			}
			answers[i] = append(answers[i], done...)
		}
		return nil
	})
	t.expectPeriods(slices.Concat(answers...), period)
}

// completeSome runs some jobs, and sweeps.
func (t *test) completeSome(db admin.Database) error {
	jobs, err := db.Claim(t.ctx, dibs.ClaimRequest{Worker: "w", N: 3, Lease: time.Hour})
	if err == nil && len(jobs) > 0 {
		err = db.Finish(t.ctx, outcomes(jobs, completed))
	}
	_, sweepErr := db.Sweep(t.ctx)
	return errors.Join(err, sweepErr)
}

// enqueueSomehow enqueues jobs with three keys, by themselves or in a transaction, which may be
// rolled back.
func (t *test) enqueueSomehow(db admin.Database, r *rand.Rand, period time.Duration) (done []dibs.Enqueued, err error) {
	batch := make([]dibs.NewJob, 1+r.IntN(4))
	for k := range batch {
		batch[k] = throttled(string(rune('a'+r.IntN(3))), period)
		batch[k].UniqueUntil = []dibs.UniqueUntil{dibs.UntilFinished, dibs.UntilClaimed}[r.IntN(2)]
		batch[k].IfHeld = []dibs.IfHeld{dibs.HeldKeep, dibs.HeldReplace}[r.IntN(2)]
	}
	if r.IntN(2) == 0 {
		return db.Enqueue(t.ctx, batch)
	}
	errRollBack, rollBack := errors.New("roll back"), r.IntN(2) == 0
	err = db.InTx(t.ctx, func(tx dibs.Tx) (err error) {
		if done, err = tx.Enqueue(t.ctx, batch); err == nil && rollBack {
			err = errRollBack
		}
		return err
	})
	if errors.Is(err, errRollBack) || t.Conflicts && errors.Is(err, dibs.ErrUnavailable) {
		return nil, nil
	}
	return done, err
}

// expectPeriods expects each job to have been enqueued once, and no two of a key in one period.
func (t *test) expectPeriods(answers []dibs.Enqueued, period time.Duration) {
	t.Helper()
	var jobs []*dibs.RawJob
	seen := map[int64]bool{}
	for _, e := range answers {
		if e.Existing {
			continue
		}
		if seen[e.ID] {
			t.Errorf("job %d was enqueued twice", e.ID)
		}
		seen[e.ID] = true
		jobs = append(jobs, t.get(e.ID))
	}
	for _, e := range answers {
		if !seen[e.ID] {
			t.Errorf("job %d holds a key, but nobody has enqueued it", e.ID)
		}
	}
	slices.SortFunc(jobs, func(a, b *dibs.RawJob) int {
		return cmp.Or(cmp.Compare(a.UniqueKey, b.UniqueKey), a.CreatedAt.Compare(b.CreatedAt))
	})
	for i := range jobs[1:] {
		if a, b := jobs[i], jobs[i+1]; a.UniqueKey == b.UniqueKey && b.CreatedAt.Sub(a.CreatedAt) < period {
			t.Errorf("jobs %d and %d of key %s were enqueued within %v, the period is %v", a.ID, b.ID, a.UniqueKey, b.CreatedAt.Sub(a.CreatedAt), period)
		}
	}
	t.Logf("%d jobs", len(jobs))
}

func txWindowRollback(t *test) {
	job := throttled("u", time.Hour)
	tx := t.beginTx()
	t.enqueueOn(tx, job)
	again, err := tx.Enqueue(t.ctx, []dibs.NewJob{job})
	t.must(err)
	equal(t, "existing", again[0].Existing, true)
	t.must(tx.Rollback())
	tx = t.beginTx()
	kept := t.enqueueOn(tx, job)
	t.must(tx.Commit())
	t.enqueueDuplicate(kept[0], job)
	t.cancel(kept[0])
	t.enqueueDuplicate(kept[0], job)
}

func txWindowOpen(t *test) {
	other := t.Another(t)
	for _, commit := range []bool{false, true} {
		job := throttled(fmt.Sprint(commit), time.Hour)
		tx := t.beginTx()
		first := t.enqueueOn(tx, job)[0]
		answer := make(chan dibs.Enqueued, 1)
		go func() {
			got, err := other.Enqueue(t.ctx, []dibs.NewJob{job})
			if err != nil {
				t.Error(err)
				got = []dibs.Enqueued{{}}
			}
			answer <- got[0]
		}()
		if commit {
			t.must(tx.Commit())
			equal(t, "answer after the commit", <-answer, dibs.Enqueued{ID: first, Existing: true})
			continue
		}
		t.must(tx.Rollback())
		second := <-answer
		equal(t, "existing after the rollback", second.Existing, false)
		t.inState(dibs.Waiting, second.ID)
	}
}

func txWindowReplace(t *test) {
	other := t.Another(t)
	id := t.enqueue(replacing("u", "old"))[0]
	for _, commit := range []bool{false, true} {
		tx := t.beginTx()
		got, err := tx.Enqueue(t.ctx, []dibs.NewJob{replacing("u", "new")})
		t.must(err)
		equal(t, "answer", got, []dibs.Enqueued{{ID: id, Existing: true, Replaced: true}})
		j, err := other.Get(t.ctx, id)
		t.must(err)
		equal(t, "payload before the end", string(j.Payload), `"old"`)
		want := `"old"`
		if commit {
			want = `"new"`
			t.must(tx.Commit())
		} else {
			t.must(tx.Rollback())
		}
		equal(t, "payload after the end", string(t.get(id).Payload), want)
	}
	equal(t, "payload when it runs", string(t.claimSoon(dibs.ClaimRequest{}, 1)[0].Payload), `"new"`)
}
