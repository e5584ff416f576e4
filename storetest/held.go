package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// What becomes of a job that holds a unique key when another one is enqueued with it.
var heldCases = []oneCase{
	{"a holder that waits becomes the new job and stays itself", heldReplaced},
	{"a holder replaced without a start keeps its turn, or may start at once", heldReplacedStart},
	{"a holder that runs or has ended is kept, and the answer says so", heldKept},
	{"a pushed holder starts later, never earlier, and up to the limit", heldPushed},
	{"a replaced holder is put off up to the limit", heldReplacedLimit},
	{"a replaced holder moves to its new group", heldGroups},
	{"a started job of a strict queue keeps its place when it is replaced", heldStrict},
	{"payloads of replaced jobs grow and shrink", heldWide},
	{"jobs of a batch meet as if they came one after the other", heldInBatch},
	{"a claim gets what was replaced before it, and the answers agree", heldRace},
}

// replacing is a job that replaces the holder of a key.
func replacing(key string, payload any) dibs.NewJob {
	return dibs.NewJob{Kind: "k", UniqueKey: key, Payload: payload, IfHeld: dibs.HeldReplace}
}

// pushing is a job that pushes the holder of a key.
func pushing(key string, delay, limit time.Duration) dibs.NewJob {
	return dibs.NewJob{Kind: "k", UniqueKey: key, Delay: delay, DelayLimit: limit, IfHeld: dibs.HeldPush}
}

// meets enqueues one job and expects the answer that the holder was kept, replaced or pushed.
func (t *test) meets(holder int64, j dibs.NewJob, what dibs.IfHeld) {
	t.Helper()
	got, err := t.db.Enqueue(t.ctx, []dibs.NewJob{j})
	t.must(err)
	equal(t, "enqueued", got, []dibs.Enqueued{{ID: holder, Existing: true, Replaced: what == dibs.HeldReplace, Pushed: what == dibs.HeldPush}})
}

func heldReplaced(t *test) {
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	id := t.enqueue(dibs.NewJob{Kind: "old", UniqueKey: "u", UniqueUntil: dibs.UntilFinished, MaxAttempts: 2, Metadata: json.RawMessage(`{"a":1}`)})[0]
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().RetryAfter(time.Hour, "e"))
	want := t.get(id)
	t.meets(id, dibs.NewJob{
		Kind: "new", UniqueKey: "u", UniqueUntil: dibs.UntilClaimed, Payload: "p", Priority: new(3), RunAt: at, MaxAttempts: 5, IfHeld: dibs.HeldReplace,
	}, dibs.HeldReplace)
	want.Kind, want.Payload, want.Metadata, want.Priority, want.RunAt, want.MaxAttempts, want.Excused = "new", json.RawMessage(`"p"`), nil, 3, at.UTC(), 5, 1
	sameJob(t, t.get(id), want)
	t.meets(id, replacing("u", "q"), dibs.HeldReplace)
	j := t.claimOne(dibs.ClaimRequest{})
	equal(t, "id, kind, payload, attempt, priority", []any{j.ID, j.Kind, string(j.Payload), j.Attempt, j.Priority}, []any{id, "k", `"q"`, 2, dibs.DefaultPriority})
	equal(t, "max attempts", j.MaxAttempts, dibs.DefaultSettings("").MaxAttempts)
	t.meets(id, keyed("u"), dibs.HeldKeep) // it still holds its key until it is finished
	equal(t, "enqueued", t.stats(dibs.DefaultQueue).Enqueued, int64(1))
}

func heldReplacedStart(t *test) {
	due := t.enqueue(keyed("due"), dibs.NewJob{Kind: "between"}, dibs.NewJob{Kind: "k", UniqueKey: "later", Delay: time.Hour})
	before := t.get(due[0]).RunAt
	t.meets(due[0], replacing("due", 1), dibs.HeldReplace)
	equal(t, "run_at", t.get(due[0]).RunAt, before)
	t.meets(due[2], replacing("later", 1), dibs.HeldReplace)
	t.claimExactly("in their order", due...)
}

func heldKept(t *test) {
	for _, until := range []dibs.UniqueUntil{dibs.UntilFinished, dibs.UntilClaimed} {
		job := replacing(string(until), "new")
		job.UniqueUntil, job.UniqueFor, job.Payload = until, time.Hour, "old"
		id := t.enqueue(job)[0]
		job.Payload = "new"
		push := job
		push.IfHeld, push.Delay, push.DelayLimit = dibs.HeldPush, time.Minute, time.Hour
		running := t.claimOne(dibs.ClaimRequest{})
		t.expectUnchanged(id, func() {
			t.meets(id, job, dibs.HeldKeep)
			t.meets(id, push, dibs.HeldKeep)
		})
		t.complete(running)
		t.expectUnchanged(id, func() {
			t.meets(id, job, dibs.HeldKeep)
			t.meets(id, push, dibs.HeldKeep)
		})
		equal(t, "payload", string(t.get(id).Payload), `"old"`)
	}
	// Until claimed and without a period, a job that comes while the holder runs is enqueued.
	job := replacing("u", 1)
	job.UniqueUntil = dibs.UntilClaimed
	first := t.enqueue(job)[0]
	t.claimExactly("the first", first)
	second := t.enqueue(job)[0]
	t.meets(second, job, dibs.HeldReplace)
}

func heldPushed(t *test) {
	id := t.enqueue(keyed("u"))[0]
	created := t.get(id).CreatedAt
	at := created.Add(time.Hour)
	push := pushing("u", 0, 2*time.Hour)
	push.RunAt, push.Payload, push.Priority = at, "not kept", new(1)
	want := t.get(id)
	want.RunAt = at
	t.meets(id, push, dibs.HeldPush)
	sameJob(t, t.get(id), want)
	push.RunAt = created.Add(time.Minute)
	t.expectUnchanged(id, func() { t.meets(id, push, dibs.HeldPush) })
	push.RunAt = created.Add(24 * time.Hour)
	t.meets(id, push, dibs.HeldPush)
	equal(t, "run_at at the limit", t.get(id).RunAt, created.Add(2*time.Hour))
	t.meets(id, pushing("u", 5*time.Hour, 3*time.Hour), dibs.HeldPush)
	equal(t, "run_at at a later limit", t.get(id).RunAt, created.Add(3*time.Hour))
	// A debounced job starts once nobody pushes it any more.
	soon := pushing("soon", 20*time.Millisecond, time.Minute)
	soon.Queue = "soon"
	first := t.enqueue(soon)[0]
	for range 5 {
		before := t.get(first).RunAt
		t.meets(first, soon, dibs.HeldPush)
		if after := t.get(first).RunAt; after.Before(before) {
			t.Fatalf("run_at went back from %v to %v", before, after)
		}
	}
	equal(t, "job", t.claimSoon(dibs.ClaimRequest{Queue: "soon"}, 1)[0].ID, first)
}

func heldReplacedLimit(t *test) {
	job := replacing("u", 1)
	job.Delay = time.Minute
	id := t.enqueue(job)[0]
	created := t.get(id).CreatedAt
	job.Delay, job.DelayLimit = time.Hour, 30*time.Minute
	t.meets(id, job, dibs.HeldReplace)
	equal(t, "run_at at the limit", t.get(id).RunAt, created.Add(30*time.Minute))
	job.DelayLimit = time.Microsecond // the limit has passed already
	t.meets(id, job, dibs.HeldReplace)
	if at := t.get(id).RunAt; at.After(created.Add(time.Minute)) || at.Before(created) {
		t.Fatalf("run_at is %v, want now, soon after %v", at, created)
	}
	t.claimExactly("at once", id)
}

func heldGroups(t *test) {
	in := func(group string, j dibs.NewJob) dibs.NewJob {
		j.Group = group
		return j
	}
	first := t.enqueue(in("a", replacing("u", 1)), grouped("a"), grouped("b"))
	t.meets(first[0], in("b", replacing("u", 2)), dibs.HeldReplace)
	claimed := t.claim(dibs.ClaimRequest{N: 10}) // the first of a, and by its old run_at the first of b
	sameIDs(t, "claimed", slices.Sorted(slices.Values(ids(claimed))), first[:2])
	t.complete(claimed...)
	t.claimExactly("the next of b", first[2])
	blocked := t.enqueue(in("b", replacing("v", 1)))[0]
	t.inState(dibs.Blocked, blocked)
	push := in("b", pushing("v", time.Hour, 2*time.Hour))
	t.meets(blocked, push, dibs.HeldPush)
	t.inState(dibs.Waiting, blocked)
	t.meets(blocked, replacing("v", 2), dibs.HeldReplace)
	equal(t, "group", t.get(blocked).Group, "")
	t.claimExactly("without a group", blocked)
	free := t.enqueue(replacing("w", 1))[0]
	t.meets(free, in("b", replacing("w", 2)), dibs.HeldReplace)
	t.inState(dibs.Blocked, free)
	s := t.stats(dibs.DefaultQueue)
	equal(t, "waiting, blocked, running", []int64{s.Waiting, s.Blocked, s.Running}, []int64{0, 1, 2})
}

func heldStrict(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(true)})
	job := replacing("u", 1)
	job.Group = "g"
	all := t.enqueue(job, grouped("g"))
	t.finish(t.claimExactly("the first", all[0])[0].Lease().RetryAfter(0, "e"))
	job.Delay = time.Hour
	t.meets(all[0], job, dibs.HeldReplace)
	t.claimExactly("while it waits")
	job.Delay = 0
	t.meets(all[0], job, dibs.HeldReplace)
	t.complete(t.claimExactly("the started one", all[0])...)
	t.claimExactly("the next", all[1])
}

func heldWide(t *test) {
	var keys []dibs.NewJob
	for range 12 {
		keys = append(keys, dibs.NewJob{Kind: "k", IfHeld: dibs.HeldReplace})
	}
	all := []int64{}
	for round := range 7 {
		for i := range keys {
			payload, metadata := wideValues(i + round)
			keys[i].UniqueKey, keys[i].Payload, keys[i].Metadata = fmt.Sprint(i), payload, metadata
		}
		done, err := t.db.Enqueue(t.ctx, keys)
		t.must(err)
		for i, e := range done {
			if round == 0 {
				all = append(all, e.ID)
			}
			equal(t, "replaced", e.Replaced, round > 0)
			equal(t, "id", e.ID, all[i])
		}
		shifted := append(make([]int64, round), all...)
		for _, id := range all {
			t.expectWide(shifted, t.get(id))
		}
		if round == 6 {
			t.expectWide(shifted, t.claim(dibs.ClaimRequest{N: 12})...)
			t.expectWide(shifted, t.list(admin.Filter{State: dibs.Running})...)
		}
	}
}

// heldInBatch enqueues the same random jobs into two queues, as batches and one after the other.
// Jobs, answers and counts must be the same.
func heldInBatch(t *test) {
	r := t.random()
	for round := range 25 {
		batch, single := fmt.Sprint("batch", round), fmt.Sprint("single", round)
		jobs := heldJobs(r, 38)
		known := map[string]map[int64]int{batch: {}, single: {}} // the order in which ids were first seen
		for i, list := range [][]dibs.NewJob{jobs[:6], jobs[6:18], jobs[18:]} {
			var answers [2][]string
			for side, queue := range []string{batch, single} {
				for j := range list {
					list[j].Queue = queue
				}
				var done []dibs.Enqueued
				for len(done) < len(list) {
					n := len(list)
					if queue == single {
						n = len(done) + 1
					}
					more, err := t.db.Enqueue(t.ctx, list[len(done):n])
					t.must(err)
					done = append(done, more...)
				}
				for _, e := range done {
					if _, ok := known[queue][e.ID]; !ok {
						known[queue][e.ID] = len(known[queue])
					}
					e.ID = int64(known[queue][e.ID])
					answers[side] = append(answers[side], fmt.Sprint(e))
				}
				if running := t.claim(dibs.ClaimRequest{Queue: queue, N: i + 1}); i == 1 { // later batches have keys of running and of ended jobs
					t.complete(running...)
				}
			}
			equal(t, "answers to "+fmt.Sprintf("%+v", list), answers[0], answers[1])
		}
		equal(t, "jobs", t.seen(batch, known[batch]), t.seen(single, known[single]))
		a, b := t.stats(batch), t.stats(single)
		equal(t, "counts", []int64{a.Waiting, a.Blocked, a.Running, a.Enqueued}, []int64{b.Waiting, b.Blocked, b.Running, b.Enqueued})
	}
}

// heldJobs are random jobs with few keys. Their priorities differ, so that their order does not
// depend on times.
func heldJobs(r *rand.Rand, n int) []dibs.NewJob {
	jobs := make([]dibs.NewJob, n)
	start := time.Now().Add(24 * time.Hour).Truncate(time.Hour)
	for i, priority := range r.Perm(n) {
		payload, metadata := wideValues(r.IntN(100))
		j := dibs.NewJob{Kind: fmt.Sprint("k", r.IntN(3)), Payload: payload, Metadata: metadata, Priority: &priority, MaxAttempts: 1 + r.IntN(5)}
		if r.IntN(6) > 0 {
			j.UniqueKey = string(rune('a' + r.IntN(4)))
			j.UniqueUntil = []dibs.UniqueUntil{dibs.UntilFinished, dibs.UntilClaimed}[r.IntN(2)]
			j.IfHeld = []dibs.IfHeld{"", dibs.HeldKeep, dibs.HeldReplace, dibs.HeldReplace, dibs.HeldPush}[r.IntN(5)]
			j.UniqueFor = []time.Duration{0, time.Hour}[r.IntN(2)]
		}
		if j.IfHeld == dibs.HeldPush || r.IntN(3) == 0 {
			j.RunAt = start.Add(time.Duration(r.IntN(5)) * time.Hour)
		}
		if j.IfHeld == dibs.HeldPush || j.IfHeld == dibs.HeldReplace && !j.RunAt.IsZero() && r.IntN(2) == 0 {
			j.DelayLimit = time.Duration(1+r.IntN(3)) * 100 * time.Hour
		}
		if r.IntN(3) == 0 {
			j.Group = string(rune('g' + r.IntN(2)))
		}
		jobs[i] = j
	}
	return jobs
}

// seen describes the jobs of a queue by what does not depend on when they were enqueued.
func (t *test) seen(queue string, order map[int64]int) []string {
	t.Helper()
	var out []string
	for _, j := range t.listAll(queue) {
		start := ""
		if j.RunAt.Sub(j.CreatedAt) > time.Hour {
			start = j.RunAt.String()
		}
		out = append(out, fmt.Sprint(order[j.ID], " ", j.Kind, j.State, j.Priority, j.MaxAttempts, j.Attempt, j.Excused, j.Group, j.UniqueKey, j.UniqueUntil, start, len(j.Metadata), " ", string(j.Payload[:min(12, len(j.Payload))])))
	}
	slices.Sort(out)
	return out
}

// heldRace claims jobs while they are being replaced. Each key has one caller who replaces it, so
// the payload of a claimed job must be the last one that this caller was told to be the job's.
func heldRace(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	const keys, rounds, claimers = 6, 150, 4
	told := make([]map[int64]string, keys)
	claimed := make([]map[int64]string, claimers)
	var enqueuers atomic.Int32
	enqueuers.Store(keys)
	t.runAtOnce(keys+claimers, func(i int) error {
		if i >= keys {
			claimed[i-keys] = map[int64]string{}
			return t.claimAndComplete(stores[i%2], &enqueuers, claimed[i-keys])
		}
		told[i] = map[int64]string{}
		defer enqueuers.Add(-1)
		for n := range rounds {
			payload := fmt.Sprintf(`"%d %s"`, n, strings.Repeat("x", n%3*400))
			j := replacing(fmt.Sprint(i), json.RawMessage(payload))
			if j.UniqueUntil = dibs.UntilFinished; i%2 == 0 {
				j.UniqueUntil = dibs.UntilClaimed
			}
			got, err := stores[i%2].Enqueue(t.ctx, []dibs.NewJob{j})
			if err != nil {
				return err
			}
			if e := got[0]; !e.Existing || e.Replaced {
				told[i][e.ID] = payload
			} else if j.UniqueUntil == dibs.UntilClaimed {
				return fmt.Errorf("job %d was kept, though it cannot have held its key", e.ID)
			}
		}
		return nil
	})
	n := 0
	for _, part := range claimed {
		for id, payload := range part {
			want := ""
			for _, m := range told {
				want += m[id]
			}
			if n++; payload != want {
				t.Errorf("job %d ran with %.20s, the last answer for it was %.20s", id, payload, want)
			}
		}
	}
	total := 0
	for _, m := range told {
		total += len(m)
	}
	equal(t, "jobs that ran", n, total)
}

// claimAndComplete runs all jobs until nobody enqueues any more, and notes their payloads.
func (t *test) claimAndComplete(db admin.Database, enqueuers *atomic.Int32, seen map[int64]string) error {
	for last := false; ; {
		left := enqueuers.Load() > 0
		jobs, err := db.Claim(t.ctx, dibs.ClaimRequest{Worker: "w", N: 3, Lease: time.Hour})
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			if last {
				return nil
			}
			last = !left // once more: a claim may have passed over a job that was locked
			continue
		}
		for _, j := range jobs {
			seen[j.ID] = string(j.Payload)
		}
		if err := db.Finish(t.ctx, outcomes(jobs, completed)); err != nil {
			return err
		}
	}
}
