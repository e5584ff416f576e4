package history_test

import (
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// ordinary writes a job that is enqueued at 0, claimed at 10 and completed at 20, and
// then calls change.
func ordinary(change func(b *book, enqueue, claim *history.Call)) func(*book) {
	return func(b *book) {
		enqueue, claim := b.enqueue(0, 1), b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		b.atEnd(dibs.Completed, 1, 1)
		change(b, enqueue, claim)
	}
}

// putOffJob writes a job that is delayed at 20 and claimed again at 60 with the given run_at.
func putOffJob(ending dibs.Ending, delay, runAt int) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		f := b.finish("w1", 20, ending, 10, 1)
		d := time.Duration(delay) * time.Millisecond
		f.Outcomes[0].Delay = &d
		c := b.claim("w2", 60, 2, 1)
		c.Jobs[0].RunAt = ms(runAt)
		if ending != dibs.EndRetry {
			c.Jobs[0].Excused = 1
		}
		b.finish("w2", 70, dibs.EndCompleted, 60, 1)
		b.atEnd(dibs.Completed, 2, 1)
		b.Final[0].Excused = c.Jobs[0].Excused
	}
}

func pause(b *book, at int) *history.Call {
	yes := true
	return b.setQueue(at, dibs.QueueChange{Paused: &yes})
}

var asking = []page{
	{"another payload", ordinary(func(_ *book, _, c *history.Call) { c.Jobs[0].Sum++ }), 1, "has the payload"},
	{"another payload at the end", ordinary(func(b *book, _, _ *history.Call) { b.Final[0].Payload = []byte(`{"key":"k1" }`) }), 1, "has the payload"},
	{"another queue", ordinary(func(_ *book, e, _ *history.Call) { e.New[0].Queue = "p" }), 1, "has the queue"},
	{"another group", ordinary(func(_ *book, _, c *history.Call) { c.Jobs[0].Group = "h" }), 6, "has the group"},
	{"another priority", ordinary(func(_ *book, _, c *history.Call) { c.Jobs[0].Priority = 1 }), 7, "has the priority"},
	{"a priority that was being changed", ordinary(func(b *book, _, c *history.Call) {
		c.Jobs[0].Priority, b.Final[0].Priority = 1, 1
		b.operatorCall(history.Edit, 5, 1)
	}), 0, ""},
	{"other attempts than were asked for", ordinary(func(_ *book, e, _ *history.Call) { e.New[0].MaxAttempts = 6 }), 5, "has the max_attempts 5"},
	{"other attempts than the queue's", ordinary(func(b *book, _, c *history.Call) { c.Jobs[0].MaxAttempts = 6 }), 5, "has the max_attempts 6"},
	{"attempts that were being changed", ordinary(func(b *book, e, c *history.Call) {
		six := 6
		b.setQueue(0, dibs.QueueChange{MaxAttempts: &six})
		c.Jobs[0].MaxAttempts, b.Final[0].MaxAttempts = 6, 6
	}), 0, ""},
	{"more jobs than asked for", ordinary(func(_ *book, _, c *history.Call) { c.Want = 0 }), 6, "asked for 0"},
	{"as many jobs as asked for", ordinary(func(_ *book, _, c *history.Call) { c.Want = 1 }), 0, ""},
	{"a job from a paused queue", ordinary(func(b *book, _, _ *history.Call) { pause(b, 5) }), 6, "was paused"},
	{"a job from a queue that was being paused", ordinary(func(b *book, _, _ *history.Call) { pause(b, 5).End = ms(10) }), 0, ""},
	{"a lease that ends when it begins", ordinary(func(_ *book, _, c *history.Call) { c.Jobs[0].LeaseUntil = c.Jobs[0].ClaimedAt }), 2, "with a lease of 0s, not of 100ms"},
	{"a lease of another length than asked for", ordinary(func(_ *book, _, c *history.Call) { c.Lease = 50 * time.Millisecond }), 2, "with a lease of 100ms, not of 50ms"},
	{"the lease asked for", ordinary(func(_ *book, _, c *history.Call) {
		c.Lease, c.Jobs[0].LeaseUntil = 50*time.Millisecond, ms(60)
	}), 0, ""},
	{"a queue's lease that was being changed", ordinary(func(b *book, _, c *history.Call) {
		lease := 50 * time.Millisecond
		b.setQueue(10, dibs.QueueChange{Lease: &lease})
		c.Jobs[0].LeaseUntil = ms(60)
	}), 0, ""},
	{"claimed before its run_at", ordinary(func(_ *book, _, c *history.Call) { c.Jobs[0].RunAt = ms(11) }), 4, "before its run_at"},
	{"claimed at its run_at", ordinary(func(_ *book, _, c *history.Call) { c.Jobs[0].RunAt = ms(10) }), 0, ""},
	{"claimed in spite of its delay", ordinary(func(_ *book, e, _ *history.Call) { e.New[0].Delay = 8 * time.Millisecond }), 4, "was enqueued for"},
	{"claimed after its delay", ordinary(func(_ *book, e, c *history.Call) {
		e.New[0].Delay, c.Jobs[0].RunAt = 8*time.Millisecond, ms(8)
	}), 0, ""},
	{"claimed before the run_at that was asked for", ordinary(func(_ *book, e, _ *history.Call) { e.New[0].RunAt = ms(1) }), 4, "was enqueued for"},
	{"claimed in spite of a retry's delay", putOffJob(dibs.EndRetry, 30, 40), 4, "had been put off"},
	{"claimed after a retry's delay", putOffJob(dibs.EndRetry, 30, 50), 0, ""},
	{"claimed in spite of a snooze", putOffJob(dibs.EndSnooze, 30, 40), 4, "had been put off"},
	{"claimed after a snooze", putOffJob(dibs.EndSnooze, 30, 50), 0, ""},
	{"claimed in spite of the backoff", func(b *book) {
		b.Queues[0].Backoff = dibs.Backoff{Base: 40 * time.Millisecond, Factor: 2, Max: time.Second, Jitter: 0.25}
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndRetry, 10, 1)
		b.claim("w2", 60, 2, 1).Jobs[0].RunAt = ms(40)
	}, 4, "had been put off"},
	{"a release that lost its place", putOffJob(dibs.EndRelease, 0, 50), 7, "lost its place"},
	{"a release that kept its place", putOffJob(dibs.EndRelease, 0, 0), 0, ""},
	{"an error that is missing", failThenComplete(2, func(j *dibs.RawJob) { j.Errors = j.Errors[1:] }), 4, "has no error of attempt 1"},
	{"an error that is there", failThenComplete(2, func(*dibs.RawJob) {}), 0, ""},
	{"an error that newer ones displaced", failThenComplete(11, func(j *dibs.RawJob) { j.Errors = j.Errors[1:] }), 0, ""},
	{"one error more missing than newer ones displaced", failThenComplete(11, func(j *dibs.RawJob) { j.Errors = j.Errors[2:] }), 4, "has no error of attempt 1"},
}

// failThenComplete writes a job that fails n times and is then completed.
func failThenComplete(n int, change func(*dibs.RawJob)) func(*book) {
	return func(b *book) {
		b.Queues[0].MaxAttempts = 20
		b.enqueue(0, 1)
		for i := range n + 1 {
			b.claim("w1", 10+20*i, i+1, 1).Jobs[0].MaxAttempts = 20
			ending := dibs.EndRetry
			if i == n {
				ending = dibs.EndCompleted
			}
			b.finish("w1", 20+20*i, ending, 10+20*i, 1)
		}
		b.atEnd(dibs.Completed, n+1, 1)
		b.Final[0].MaxAttempts = 20
		change(b.Final[0])
	}
}

// halfKnownTx writes a transaction whose commit has no answer and whose calls f makes. The jobs 1
// and 2 are claimed at 10. Those in done are completed at the end; another worker claims
// and completes the others.
func halfKnownTx(f func(*book), done ...int64) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1, 2)
		b.claim("t", 10, 1, 1, 2)
		removeAnswer(b.inTx("tx", 30, history.Commit, func() { f(b) }))
		b.atEnd(dibs.Completed, 1, done...)
		for id := range int64(2) {
			if id++; !slices.Contains(done, id) {
				at := 110 + 20*int(id)
				b.claim("w2", at, 2, id)
				b.finish("w2", at+10, dibs.EndCompleted, at, id)
				b.atEnd(dibs.Completed, 2, id)
			}
		}
	}
}

func completeBoth(b *book) {
	b.finish("t", 20, dibs.EndCompleted, 10, 1)
	b.finish("t", 22, dibs.EndCompleted, 10, 2)
}

func completeAndEnqueue(b *book) {
	b.finish("t", 20, dibs.EndCompleted, 10, 1, 2)
	b.enqueue(22, 3)
}

// withJobThree calls f, and leaves job 3 in the given state.
func withJobThree(f func(*book), state dibs.State) func(*book) {
	return func(b *book) {
		f(b)
		b.operatorCall(history.Cancel, 200, 3)
		b.atEnd(state, 0, 3)
	}
}

// batchWithoutAnswer writes an enqueue without an answer. Job 1 of it has a unique key and is missing at
// the end; job 2 is there.
func batchWithoutAnswer(f func(b *book, key func(...*history.Call))) func(*book) {
	return func(b *book) {
		c := removeAnswer(b.enqueue(10, 1, 2))
		c.New[0].UniqueKey, c.New[0].UniqueUntil = "u", dibs.UntilFinished
		f(b, func(calls ...*history.Call) { setUniqueKey(dibs.UntilFinished, calls...) })
		b.operatorCall(history.Cancel, 200, 2)
		b.atEnd(dibs.Cancelled, 0, 2)
	}
}

// giveBackInTx writes a transaction without an answer that gives job 1 back and enqueues job 2,
// which is missing at the end.
func giveBackInTx(ending dibs.Ending, change func(again *history.Job, f *dibs.RawJob)) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		b.claim("t", 10, 1, 1)
		runAt := b.runAt[1]
		removeAnswer(b.inTx("tx", 30, history.Commit, func() {
			b.finish("t", 20, ending, 10, 1)
			b.enqueue(22, 2)
		}))
		b.runAt[1] = runAt
		c := b.claim("w2", 130, 2, 1)
		b.finish("w2", 140, dibs.EndCompleted, 130, 1)
		b.atEnd(dibs.Completed, 2, 1)
		change(&c.Jobs[0], b.Final[0])
	}
}

func leaseEnded(_ *history.Job, f *dibs.RawJob) {
	f.Errors = []dibs.AttemptError{{Attempt: 1, Error: "lease expired"}}
}

var halving = []page{
	{"one of two finishes", halfKnownTx(completeBoth, 1), 8, "as a whole"},
	{"both finishes", halfKnownTx(completeBoth, 1, 2), 0, ""},
	{"neither finish", halfKnownTx(completeBoth), 0, ""},
	{"a finish without its enqueue", halfKnownTx(completeAndEnqueue, 1, 2), 1, "as a whole"},
	{"an enqueue without its finish", withJobThree(halfKnownTx(completeAndEnqueue), dibs.Cancelled), 1, "as a whole"},
	{"a finish with its enqueue", withJobThree(halfKnownTx(completeAndEnqueue, 1, 2), dibs.Cancelled), 0, ""},
	{"neither finish nor enqueue", halfKnownTx(completeAndEnqueue), 0, ""},
	{"an enqueue without its claim", func(b *book) {
		b.enqueue(0, 1)
		removeAnswer(b.inTx("tx", 30, history.Commit, func() {
			b.claim("t", 10, 1, 1)
			b.enqueue(22, 3)
		}))
		b.claim("w2", 130, 1, 1)
		b.finish("w2", 140, dibs.EndCompleted, 130, 1)
		b.atEnd(dibs.Completed, 1, 1)
		withJobThree(func(*book) {}, dibs.Cancelled)(b)
	}, 1, "as a whole"},
	{"a retry without its enqueue", giveBackInTx(dibs.EndRetry, func(again *history.Job, _ *dibs.RawJob) { again.RunAt = ms(25) }), 1, "as a whole"},
	{"neither retry nor enqueue", giveBackInTx(dibs.EndRetry, leaseEnded), 0, ""},
	{"a release without its enqueue", giveBackInTx(dibs.EndRelease, func(again *history.Job, f *dibs.RawJob) { again.Excused, f.Excused = 1, 1 }), 1, "as a whole"},
	{"neither release nor enqueue", giveBackInTx(dibs.EndRelease, leaseEnded), 0, ""},
	{"a batch without the job whose key was free", batchWithoutAnswer(func(*book, func(...*history.Call)) {}), 1, "as a whole"},
	{"a batch without the job whose key was free again", batchWithoutAnswer(func(b *book, key func(...*history.Call)) {
		key(b.enqueue(0, 3))
		b.claim("w", 2, 1, 3)
		b.finish("w", 5, dibs.EndCompleted, 2, 3)
		b.atEnd(dibs.Completed, 1, 3)
	}), 1, "as a whole"},
	{"a batch without the job whose key was held", batchWithoutAnswer(func(b *book, key func(...*history.Call)) {
		key(b.enqueue(0, 3))
		b.claim("w", 2, 1, 3)
		b.finish("w", 15, dibs.EndCompleted, 2, 3)
		b.atEnd(dibs.Completed, 1, 3)
	}), 0, ""},
}

var waiting = []page{
	{"in a free group, a job is not claimed", limbo(0, func(b *book) { setGroup(b.Calls...) }), 4, "in limbo"},
	{"the group's one place was taken", limbo(0, func(b *book) {
		setGroup(append(b.Calls, holdAnother(b))...)
	}), 0, ""},
	{"one of the group's two places was taken", limbo(0, func(b *book) {
		b.Queues[0].GroupLimit = 2
		setGroup(append(b.Calls, holdAnother(b))...)
	}), 4, "in limbo"},
	{"another claim may have had the group's turn", limbo(0, func(b *book) {
		setGroup(b.Calls...)
		b.claim("w2", 1500, 1).End = ms(3600)
	}), 0, ""},
	{"one of the queue's two places was taken", limbo(0, func(b *book) { b.Queues[0].Concurrency = 2; holdAnother(b) }), 4, "in limbo"},
	{"the queue's one place was taken", limbo(0, func(b *book) { b.Queues[0].Concurrency = 1; holdAnother(b) }), 0, ""},
	{"the worker has claimed for long enough", limbo(600, func(*book) {}), 4, "in limbo"},
	{"the worker has claimed for too short a time", limbo(1400, func(*book) {}), 0, ""},
}

// holdAnother makes a worker hold job 2 until just before job 1 is claimed.
func holdAnother(b *book) *history.Call {
	e := b.enqueue(0, 2)
	c := b.claim("w3", 10, 1, 2)
	c.Lease, c.Jobs[0].LeaseUntil = 10*time.Second, ms(10_010)
	b.finish("w3", 3450, dibs.EndCompleted, 10, 2)
	setGroup(e)
	b.atEnd(dibs.Completed, 1, 2)
	if b.Queues[0].Concurrency > 0 {
		e.New[0].Group, b.Final[0].Group = "", ""
	}
	return c
}

// rolledBackClaim writes a transaction that claims a job, rolls the claim back to a savepoint,
// and finishes the job although another worker has completed it.
func rolledBackClaim(refused bool) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		b.inTx("savepoint", 12, history.Rollback, func() { b.claim("t", 10, 1, 1) })
		b.claim("w", 20, 1, 1)
		b.finish("w", 25, dibs.EndCompleted, 20, 1)
		b.inTx("tx", 40, history.Commit, func() {
			if c := b.finish("t", 30, dibs.EndSnooze, 10, 1); refused {
				setRefused(c, 1)
			}
		})
		b.atEnd(dibs.Completed, 1, 1)
	}
}

// longClaim writes a transaction that claims a job with a lease of 100 ms, and a finish after
// 140 ms, in that transaction or in another. If it is refused, another worker ends the job.
func longClaim(finisher string, refused bool) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		finish := func() {
			if c := b.finish("t", 150, dibs.EndCompleted, 10, 1); refused {
				setRefused(c, 1)
			}
		}
		commit := 20
		if finisher == "tx" {
			commit = 200
		}
		b.inTx("tx", commit, history.Commit, func() {
			b.claim("t", 10, 1, 1)
			if finisher == "tx" {
				finish()
			}
		})
		if finisher != "tx" {
			b.inTx(finisher, 200, history.Commit, finish)
		}
		attempts := 1
		if refused {
			attempts++
			b.claim("w", 250, 2, 1)
			b.finish("w", 260, dibs.EndCompleted, 250, 1)
		}
		b.atEnd(dibs.Completed, attempts, 1)
	}
}
