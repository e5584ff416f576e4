package storetest

import (
	"math"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var retryCases = []oneCase{
	{"the backoff follows the documented formula", backoffFormula},
	{"the default backoff is one second doubled", backoffDefault},
	{"jitter spreads what failed together", backoffJitter},
	{"the largest backoff does not overflow", backoffMax},
	{"attempts that do not count do not lengthen the backoff", backoffExcused},
	{"a retry's own delay is taken as it is", ownDelay},
	{"the attempts run out", attemptsRunOut},
	{"a job's own attempts count more than the queue's", ownAttempts},
}

// fail makes a job due, runs one attempt of it, and returns the delay before the next.
func (t *test) fail(id int64, finish func(dibs.Lease) dibs.Outcome) time.Duration {
	t.Helper()
	past := time.Unix(0, 0)
	t.edit(admin.Edit{RunAt: &past}, id)
	j := t.claimOne(dibs.ClaimRequest{})
	equal(t, "claimed job", j.ID, id)
	t.finish(finish(j.Lease()))
	got := t.get(id)
	if len(got.Errors) == 0 {
		return 0
	}
	return got.RunAt.Sub(got.Errors[len(got.Errors)-1].At)
}

func failed(l dibs.Lease) dibs.Outcome { return l.Retry("e") }

// Requirement 4: retry with delay.
func backoffFormula(t *test) {
	b := dibs.Backoff{Base: 20 * time.Second, Factor: 1.5, Max: 90 * time.Second}
	t.set(dibs.DefaultQueue, dibs.QueueChange{Backoff: &b})
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	for n := 1; n <= 6; n++ {
		want := min(b.Max, time.Duration(float64(b.Base)*math.Pow(b.Factor, float64(n-1))))
		near(t, "delay", t.fail(id, failed), want)
	}
}

func backoffDefault(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	want := time.Second
	for range 5 {
		d := t.fail(id, failed)
		if d < want*3/4-20*time.Millisecond || d > want*5/4+20*time.Millisecond {
			t.Fatalf("delay %v, want %v within a quarter", d, want)
		}
		want *= 2
	}
}

func backoffJitter(t *test) {
	b := dibs.Backoff{Base: 100 * time.Second, Factor: 2, Max: time.Hour, Jitter: 0.5}
	t.set(dibs.DefaultQueue, dibs.QueueChange{Backoff: &b})
	const n = 100
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: n})
	t.finish(outcomes(jobs, failed)...)
	least, most := time.Hour, time.Duration(0)
	for _, j := range jobs {
		got := t.get(j.ID)
		d := got.RunAt.Sub(got.Errors[0].At)
		least, most = min(least, d), max(most, d)
	}
	if least < 50*time.Second-20*time.Millisecond || most > 150*time.Second+20*time.Millisecond {
		t.Fatalf("delays %v to %v, want within 50s to 150s", least, most)
	}
	// The odds that 100 uniform delays lie within half of their range are 1 to 10^28.
	if most-least < 50*time.Second {
		t.Fatalf("delays of jobs that failed together lie within %v to %v", least, most)
	}
}

func backoffMax(t *test) {
	b := dibs.Backoff{Base: time.Second, Factor: 1000, Max: dibs.MaxDelay}
	t.set(dibs.DefaultQueue, dibs.QueueChange{Backoff: &b})
	id := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 1000})[0]
	var d time.Duration
	for range 12 {
		d = t.fail(id, failed)
	}
	near(t, "delay", d, dibs.MaxDelay)
}

func backoffExcused(t *test) {
	b := dibs.Backoff{Base: 10 * time.Second, Factor: 2, Max: time.Hour}
	t.set(dibs.DefaultQueue, dibs.QueueChange{Backoff: &b})
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	near(t, "first delay", t.fail(id, failed), 10*time.Second)
	for range 3 {
		t.fail(id, func(l dibs.Lease) dibs.Outcome { return l.Snooze(time.Hour) })
		t.fail(id, dibs.Lease.Release)
	}
	near(t, "second delay", t.fail(id, failed), 20*time.Second)
}

func ownDelay(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	if d := t.fail(id, func(l dibs.Lease) dibs.Outcome { return l.RetryAfter(0, "e") }); d < 0 {
		t.Fatalf("a retry without a delay: the job is due %v before its failure", -d)
	}
	equal(t, "the job that is due at once", t.claimOne(dibs.ClaimRequest{}).ID, id)
	t.finish(t.get(id).Lease().Release())
	for _, want := range []time.Duration{time.Millisecond * 1500, time.Hour, dibs.MaxDelay} {
		near(t, "delay", t.fail(id, func(l dibs.Lease) dibs.Outcome { return l.RetryAfter(want, "e") }), want)
	}
}

// Requirement 4: limited number of attempts, after which the item is dropped.
func attemptsRunOut(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{MaxAttempts: new(3)})
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	for n := 1; n <= 3; n++ {
		t.inState(dibs.Waiting, id)
		t.fail(id, failed)
	}
	got := t.get(id)
	equal(t, "state, attempt, errors", []any{got.State, got.Attempt, len(got.Errors)}, []any{dibs.Dead, 3, 3})
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 1})), nil)
}

func ownAttempts(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{MaxAttempts: new(1)})
	id := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 2})[0]
	t.fail(id, failed)
	t.inState(dibs.Waiting, id)
	t.fail(id, failed)
	t.inState(dibs.Dead, id)
}
