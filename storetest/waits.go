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

// waitUntilTime lets time pass until the database's clock has reached a time, or waits if that is
// soon, a transaction is open or the setup cannot pass time. Nothing is swept. Times that were read before it are those in
// the database plus passed.
func (t *test) waitUntilTime(at time.Time) {
	t.Helper()
	wait, left := t.setAlarm(at)
	if t.Pass != nil && t.open.Load() == 0 && left > 20*time.Millisecond {
		if left > time.Second { // the ticks of schedules stay at whole seconds
			left = (left + time.Second - 1).Truncate(time.Second)
		}
		t.must(t.Pass(t.ctx, left))
		t.passed += left
	}
	wait()
}

// inRealTime makes a test wait where other tests call Pass. One test for each kind of time does so, which would
// show a mistake in Pass.
func (t *test) inRealTime() { t.Pass = nil }

// setAlarm enqueues a job for a time, and returns a function that waits for the time, and how long
// that will take. The function waits until the job is no longer counted as scheduled. It writes
// nothing, so a transaction may be open meanwhile.
func (t *test) setAlarm(at time.Time) (wait func(), left time.Duration) {
	t.Helper()
	alarm := t.get(t.enqueue(dibs.NewJob{Queue: clock, Kind: "tick", RunAt: at.Add(2 * time.Millisecond)})[0])
	return func() {
		t.Helper()
		t.waitUntil(at.Format(time.StampMilli), func() bool { return t.stats(clock).Scheduled == 0 })
	}, alarm.RunAt.Sub(alarm.CreatedAt)
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

// someLease is a lease that a case extends before it lets the lease's time pass. It is long enough for that on a
// slow machine.
func (t *test) someLease() time.Duration {
	if t.Pass == nil {
		return 2 * time.Second
	}
	return time.Minute
}

// runAtOnce runs f n times at once, and fails the test if one returns an error.
func (t *test) runAtOnce(n int, f func(i int) error) {
	t.Helper()
	t.goroutines()
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
