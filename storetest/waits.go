package storetest

import (
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
)

// until waits for something to come true.
func (t *test) until(what string, cond func() bool) {
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

// untilTime waits until the database's clock has reached a time. It does so by
// reading alone, so that nothing is swept meanwhile: a job that is due then stops
// being counted as scheduled.
func (t *test) untilTime(at time.Time) {
	t.Helper()
	t.alarm(at)()
}

// alarm is untilTime in two steps: the wait that it returns writes nothing, and so may
// happen beside an open transaction.
func (t *test) alarm(at time.Time) (wait func()) {
	t.Helper()
	t.enqueue(dibs.NewJob{Queue: clock, Kind: "tick", RunAt: at.Add(2 * time.Millisecond)})
	return func() {
		t.Helper()
		t.until(at.Format(time.StampMilli), func() bool { return t.stats(clock).Scheduled == 0 })
	}
}

// clock is the queue whose jobs tell the time.
const clock = "storetest-clock"

// lapse waits until the leases on these running jobs have ended.
func (t *test) lapse(jobs ...*dibs.RawJob) {
	t.Helper()
	var last time.Time
	for _, j := range jobs {
		if until := t.get(j.ID).LeaseUntil; until.After(last) {
			last = until
		}
	}
	t.untilTime(last)
}

// expire makes the leases on these jobs end now, without a sweep.
func (t *test) expire(jobs ...*dibs.RawJob) {
	t.Helper()
	t.extended(dibs.MinLease, leases(jobs)...)
	t.lapse(jobs...)
}

// together runs f n times at once, and fails on the first error.
func (t *test) together(n int, f func(i int) error) {
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
