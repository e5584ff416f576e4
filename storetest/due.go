package storetest

import (
	"slices"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
)

// A worker with several queues claims only where Due says that there may be jobs.
var dueCases = []oneCase{
	{"it lists the queues that have due jobs, and no others", dueLists},
	{"a job whose time has come is listed", dueInTime},
	{"a job whose lease has ended is listed, with no other call", dueExpired},
	{"a queue that is made later is listed", dueLater},
	{"it never leaves out a queue that gives jobs, whatever happens", dueNeverMisses},
	{"bad names are refused", dueBadNames},
}

// due asks which queues have due jobs.
func (t *test) due(queues []string, kinds ...string) []string {
	t.Helper()
	due, err := t.db.Due(t.ctx, queues, kinds)
	t.must(err)
	slices.Sort(due)
	return due
}

func dueLists(t *test) {
	t.enqueue(
		dibs.NewJob{Queue: "one", Kind: "k"},
		dibs.NewJob{Queue: "last", Kind: "k", Priority: new(dibs.MaxPriority)},
		dibs.NewJob{Queue: "later", Kind: "k", Delay: time.Hour},
		dibs.NewJob{Queue: "paused", Kind: "k"},
		dibs.NewJob{Queue: "kinds", Kind: "other"},
		dibs.NewJob{Queue: "grouped", Kind: "k", Group: "g"},
		dibs.NewJob{Queue: "grouped later", Kind: "k", Group: "g", Delay: time.Hour},
		dibs.NewJob{Queue: "running", Kind: "k"},
		dibs.NewJob{Queue: "newest", Kind: "k"},
	)
	t.set("paused", dibs.QueueChange{Paused: new(true)})
	t.set("newest", dibs.QueueChange{Order: new(dibs.LIFO)})
	t.claimOne(dibs.ClaimRequest{Queue: "running"})
	all := []string{"one", "last", "later", "paused", "kinds", "grouped", "grouped later", "running", "newest", "missing"}
	for range 3 { // repeated, since stores remember what the first calls have read
		equal(t, "due, of one kind", t.due(all, "k"), []string{"grouped", "last", "newest", "one"})
		equal(t, "due, of any kind", t.due(all), []string{"grouped", "kinds", "last", "newest", "one"})
		equal(t, "due among some", t.due([]string{"later", "one", "running"}), []string{"one"})
	}
	equal(t, "due among none", len(t.due(nil)), 0)
	t.set("paused", dibs.QueueChange{Paused: new(false)})
	equal(t, "due once it goes on", t.due([]string{"paused"}), []string{"paused"})
}

func dueInTime(t *test) {
	for i, group := range []string{"", "g"} {
		queue := "q" + strconv.Itoa(i)
		id := t.enqueue(dibs.NewJob{Queue: queue, Kind: "k", Group: group, Delay: 50 * time.Millisecond})[0]
		t.waitUntil("the job is due", func() bool { return len(t.due([]string{queue, "other"})) > 0 })
		sameIDs(t, "claimed", ids(t.claimSoon(dibs.ClaimRequest{Queue: queue}, 1)), []int64{id})
	}
}

func dueExpired(t *test) {
	id := t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})[0]
	t.expire(t.claimOne(dibs.ClaimRequest{Queue: "q"}))
	start := time.Now()
	t.waitUntil("the job is due again", func() bool { return len(t.due([]string{"other", "q"})) > 0 })
	if took := time.Since(start); took > promptly {
		t.Errorf("it took %v", took)
	}
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 1})), []int64{id})
}

func dueLater(t *test) {
	other := t.Another(t)
	for _, queue := range []string{"new", "set"} {
		equal(t, "due before", len(t.due([]string{queue})), 0)
		if queue == "set" {
			_, err := other.ChangeQueue(t.ctx, queue, dibs.QueueChange{GroupLimit: new(2)}.Apply)
			t.must(err)
			equal(t, "due once it is set", len(t.due([]string{queue})), 0)
		}
		t.enqueueOn(other, dibs.NewJob{Queue: queue, Kind: "k", Priority: new(7), Group: map[string]string{"set": "g"}[queue]})
		equal(t, "due", t.due([]string{queue}), []string{queue})
	}
}

// dueNeverMisses compares Due with claims while jobs of all sorts come and go, also in
// transactions that commit late.
func dueNeverMisses(t *test) {
	r := t.random()
	queues := []string{"plain", "grouped", "limited", "newest"}
	t.set("limited", dibs.QueueChange{Concurrency: new(3)})
	t.set("newest", dibs.QueueChange{Order: new(dibs.LIFO)})
	random := func(queue string) dibs.NewJob {
		j := dibs.NewJob{Queue: queue, Kind: []string{"a", "b"}[r.IntN(2)], Priority: new(r.IntN(3) * 100)}
		if queue == "grouped" {
			j.Group = string(rune('a' + r.IntN(3)))
		}
		if r.IntN(4) == 0 {
			j.RunAt = time.Now().Add(-time.Duration(r.IntN(1000)) * time.Second)
		}
		return j
	}
	var held []*dibs.RawJob
	found := 0
	for range 150 {
		switch queue := queues[r.IntN(len(queues))]; r.IntN(5) {
		case 0:
			var jobs []dibs.NewJob
			for range 1 + r.IntN(5) {
				jobs = append(jobs, random(queue))
			}
			t.enqueue(jobs...)
		case 1:
			tx := t.beginTx()
			t.enqueueOn(tx, random(queue))
			if !t.Machines { // nobody else writes beside an open transaction
				t.must(tx.Commit())
				break
			}
			t.due(queues)
			t.must(tx.Commit())
		case 2:
			var outcomes []dibs.Outcome
			for _, j := range held[:r.IntN(len(held)+1)] {
				outcomes = append(outcomes, []dibs.Outcome{
					j.Lease().Complete(nil), j.Lease().Release(), j.Lease().RetryAfter(0, "no"), j.Lease().Snooze(time.Hour), j.Lease().Die("no"),
				}[r.IntN(5)])
			}
			if held = held[len(outcomes):]; len(outcomes) > 0 {
				t.finish(outcomes...)
			}
		default:
			var kinds []string
			if r.IntN(3) == 0 {
				kinds = []string{"b"}
			}
			due := t.due(queues, kinds...)
			for _, queue := range queues {
				jobs := t.claim(dibs.ClaimRequest{Queue: queue, N: 1 + r.IntN(4), Kinds: kinds})
				if len(jobs) > 0 && !slices.Contains(due, queue) {
					t.Fatalf("a claim of kinds %q from %q got jobs, though only %q were due", kinds, queue, due)
				}
				found += len(jobs)
				held = append(held, jobs...)
			}
		}
	}
	if found == 0 {
		t.Error("no job was claimed")
	}
}

func dueBadNames(t *test) {
	_, err := t.db.Due(t.ctx, []string{"q", ""}, nil)
	invalid(t, err, "queues[1]")
	_, err = t.db.Due(t.ctx, []string{"q"}, []string{"k", "bad\x00"})
	invalid(t, err, "kinds[1]")
	_, err = t.db.Due(t.ctx, slices.Repeat([]string{"q"}, 1001), nil)
	invalid(t, err, "queues")
}
