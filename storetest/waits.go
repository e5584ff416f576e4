package storetest

import (
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
)

// waitUntil waits until a condition is true.
func (t *test) waitUntil(what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-t.ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// waitUntilTime waits until the database's clock reaches a time. It enqueues a job for that
// time and reads until the job is no longer counted as scheduled, so nothing is swept.
func (t *test) waitUntilTime(at time.Time) {
	t.Helper()
	t.setAlarm(at)()
}

// setAlarm is waitUntilTime in two steps. The function that it returns writes nothing, so
// it may wait beside an open transaction.
func (t *test) setAlarm(at time.Time) (wait func()) {
	t.Helper()
	t.enqueue(dibs.NewJob{Queue: clock, Kind: "tick", RunAt: at.Add(2 * time.Millisecond)})
	return func() {
		t.Helper()
		t.waitUntil(at.Format(time.StampMilli), func() bool { return t.stats(clock).Scheduled == 0 })
	}
}

// clock is the queue of the jobs that setAlarm enqueues.
const clock = "storetest-clock"

// waitForExpiry waits until the leases on these running jobs have ended.
func (t *test) waitForExpiry(jobs ...*dibs.RawJob) {
	t.Helper()
	var last time.Time
	for _, j := range jobs {
		if until := t.get(j.ID).LeaseUntil; until.After(last) {
			last = until
		}
	}
	t.waitUntilTime(last)
}

// expire shortens the leases on these jobs and waits for their end, without a sweep.
func (t *test) expire(jobs ...*dibs.RawJob) {
	t.Helper()
	t.extendAll(dibs.MinLease, leases(jobs)...)
	t.waitForExpiry(jobs...)
}

// runAtOnce runs f n times at once, and fails the test if one returns an error.
func (t *test) runAtOnce(n int, f func(i int) error) {
	t.Helper()
	start := make(chan struct{})
	errs := make(chan error, n)
	for i := range n {
		go func() {
			<-start
			errs <- f(i)
		}()
	}
	close(start)
	var first error
	for range n {
		first = errors.Join(first, <-errs)
	}
	t.must(first)
}
