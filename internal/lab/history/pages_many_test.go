package history_test

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// enqueueThree enqueues three jobs of one group, and claims the first.
func enqueueThree(b *book) *history.Call {
	c := b.enqueue(0, 1, 2, 3)
	setGroup(c, b.claim("w1", 10, 1, 1))
	return c
}

var limiting = []page{
	{"two jobs of a group run at once", func(b *book) {
		enqueueThree(b)
		setGroup(b.claim("w2", 20, 1, 2))
	}, 6, "ran at once"},
	{"one claim returns two jobs of a group", func(b *book) {
		setGroup(b.enqueue(0, 1, 2), b.claim("w2", 20, 1, 1, 2))
	}, 6, "2 jobs of group"},
	{"jobs of a group run one after the other", func(b *book) {
		enqueueThree(b)
		b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		setGroup(b.claim("w2", 30, 1, 2))
		b.finish("w2", 40, dibs.EndCompleted, 30, 2)
		setGroup(b.claim("w2", 50, 1, 3))
		b.finish("w2", 60, dibs.EndCompleted, 50, 3)
		b.atEnd(dibs.Completed, 1, 1, 2, 3)
	}, 0, ""},
	{"a limit that is being raised", func(b *book) {
		enqueueThree(b)
		c := b.call("o", history.SetGroup, 15)
		c.Queue, c.Group, c.Limit, c.End = "q", "g", new(2), ms(30)
		setGroup(b.claim("w2", 20, 1, 2))
		b.finish("w1", 40, dibs.EndCompleted, 10, 1)
		b.finish("w2", 40, dibs.EndCompleted, 20, 2)
		setGroup(b.claim("w2", 50, 1, 3))
		b.finish("w2", 60, dibs.EndCompleted, 50, 3)
		b.atEnd(dibs.Completed, 1, 1, 2, 3)
	}, 0, ""},
	{"a limit that was lowered", func(b *book) {
		b.Groups = map[string]map[string]int{"q": {"g": 2}}
		enqueueThree(b)
		c := b.call("o", history.SetGroup, 15)
		c.Queue, c.Group, c.Limit = "q", "g", new(1)
		setGroup(b.claim("w2", 20, 1, 2))
	}, 6, "the limit was 1 at most"},
	{"more than the queue's limit", func(b *book) {
		b.Queues[0].Concurrency = 2
		b.enqueue(0, 1, 2, 3)
		b.claim("w1", 10, 1, 1, 2)
		b.claim("w2", 20, 1, 3)
	}, 6, `3 jobs of queue "q"`},
	{"more starts than the queue's rate", func(b *book) {
		b.Queues[0].Rate = dibs.Rate{N: 2, Per: time.Second, Burst: 1}
		b.enqueue(0, 1, 2, 3, 4)
		b.claim("w1", 10, 1, 1, 2)
		b.claim("w1", 500, 1, 3)
		b.claim("w1", 1005, 1, 4)
	}, 6, `4 jobs of queue "q" started within 1s`},
	{"as many starts as the queue's rate", func(b *book) {
		b.Queues[0].Rate = dibs.Rate{N: 2, Per: time.Second, Burst: 1}
		b.enqueue(0, 1, 2, 3, 4)
		b.claim("w1", 10, 1, 1, 2)
		b.finish("w1", 60, dibs.EndCompleted, 10, 1, 2)
		b.claim("w1", 500, 1, 3)
		b.finish("w1", 560, dibs.EndCompleted, 500, 3)
		b.claim("w1", 1010, 1, 4)
		b.finish("w1", 1020, dibs.EndCompleted, 1010, 4)
		b.atEnd(dibs.Completed, 1, 1, 2, 3, 4)
	}, 0, ""},
	{"more starts than a group's new rate", func(b *book) {
		c := b.call("o", history.SetGroup, 5)
		c.Queue, c.Group, c.Limit, c.Rate = "q", "g", new(5), &dibs.Rate{N: 2, Per: time.Second}
		setGroup(b.enqueue(0, 1, 2, 3), b.claim("w1", 10, 1, 1), b.claim("w1", 20, 1, 2), b.claim("w1", 30, 1, 3))
	}, 6, `3 jobs of group "g" of queue "q" started within 1s`},
	{"starts while the rate was being changed", func(b *book) {
		b.Queues[0].Rate = dibs.Rate{N: 1, Per: time.Second}
		b.enqueue(0, 1, 2)
		c := b.call("o", history.SetQueue, 5)
		c.Queue, c.Settings, c.End = "q", &dibs.QueueChange{Rate: &dibs.Rate{N: 2, Per: time.Second}}, ms(25)
		b.claim("w1", 10, 1, 1)
		b.claim("w1", 20, 1, 2)
		b.finish("w1", 40, dibs.EndCompleted, 10, 1)
		b.finish("w1", 40, dibs.EndCompleted, 20, 2)
		b.atEnd(dibs.Completed, 1, 1, 2)
	}, 0, ""},
	{"jobs of a group are claimed out of order", func(b *book) {
		setGroup(b.enqueue(0, 1, 2), b.claim("w1", 10, 1, 2))
		b.finish("w1", 20, dibs.EndCompleted, 10, 2)
		setGroup(b.claim("w2", 30, 1, 1))
	}, 6, "comes before it"},
	{"the first job of the group was being enqueued", func(b *book) {
		c := b.enqueue(0, 1)
		c.End = ms(15)
		setGroup(c, b.enqueue(1, 2), b.claim("w1", 10, 1, 2))
		b.finish("w1", 20, dibs.EndCompleted, 10, 2)
		setGroup(b.claim("w2", 30, 1, 1))
		b.finish("w2", 40, dibs.EndCompleted, 30, 1)
		b.atEnd(dibs.Completed, 1, 1, 2)
	}, 0, ""},
	{"a job that waits for its retry lets the next pass", startWhileRetryWaits(false), 0, ""},
	{"a job that waits for its retry is passed in a strict queue", startWhileRetryWaits(true), 6, "kept its place"},
	{"the first job was requeued during the claim that took it", func(b *book) {
		b.Queues[0].Strict = true
		setGroup(b.enqueue(0, 1, 2), b.claim("w1", 10, 1, 1))
		b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		setGroup(b.claim("w1", 30, 1, 2))
		b.finish("w1", 40, dibs.EndCompleted, 30, 2)
		b.operatorCall(history.Requeue, 60, 1)
		c := b.claim("w2", 50, 2, 1)
		c.End = ms(70)
		setGroup(c)
		c.Jobs[0].RunAt, c.Jobs[0].Excused = ms(61), 1
		c.Jobs[0].ClaimedAt, c.Jobs[0].LeaseUntil = ms(62), ms(162)
		b.finish("w2", 80, dibs.EndCompleted, 50, 1)
		b.atEnd(dibs.Completed, 1, 2).atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
}

// startWhileRetryWaits writes a group whose second job starts while the first waits for its retry.
func startWhileRetryWaits(strict bool) func(*book) {
	return func(b *book) {
		b.Queues[0].Strict = strict
		enqueueThree(b)
		b.finish("w1", 20, dibs.EndRetry, 10, 1)
		setGroup(b.claim("w2", 30, 1, 2))
		b.finish("w2", 40, dibs.EndCompleted, 30, 2)
		setGroup(b.claim("w2", 50, 1, 3))
		b.finish("w2", 60, dibs.EndCompleted, 50, 3)
		c := b.claim("w2", 70, 2, 1)
		setGroup(c)
		c.Jobs[0].RunAt = ms(65)
		b.finish("w2", 80, dibs.EndCompleted, 70, 1)
		b.atEnd(dibs.Completed, 1, 2, 3).atEnd(dibs.Completed, 2, 1)
	}
}

// claimYoungerFirst writes a queue whose second job is claimed first.
func claimYoungerFirst(change func(*book, *history.Call)) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1, 2)
		c := b.claim("w1", 10, 1, 2)
		change(b, c)
		b.claim("w2", 30, 1, 1)
		b.finish("w1", 40, dibs.EndCompleted, 10, 2)
		b.finish("w2", 50, dibs.EndCompleted, 30, 1)
		b.atEnd(dibs.Completed, 1, 1, 2)
	}
}

var ordering = []page{
	{"the younger job is claimed first", claimYoungerFirst(func(*book, *history.Call) {}), 7, "passed over job 1"},
	{"the claim asked for some kinds only", claimYoungerFirst(func(_ *book, c *history.Call) { c.Kinds = true }), 0, ""},
	{"the younger job had the better priority", claimYoungerFirst(func(b *book, c *history.Call) { b.Calls[0].New[1].Priority, c.Jobs[0].Priority = 1, 1 }), 0, ""},
	{"the older job waited for less than the slack", claimYoungerFirst(func(b *book, _ *history.Call) { b.OrderSlack = 20 * time.Millisecond }), 0, ""},
	{"the older job may have been locked", claimYoungerFirst(func(b *book, _ *history.Call) { b.claim("w3", 9, 1).Fate = history.Unknown }), 0, ""},
	{"a claim that was cut off, and rolled back without the server, may lock the older job", claimYoungerFirst(func(b *book, _ *history.Call) {
		b.inTx("tx", 7, history.Rollback, func() { b.claim("w3", 5, 1).Fate = history.Unknown }).Error = "the connection is closed"
	}), 0, ""},
	{"a claim that the server has rolled back locks no job", claimYoungerFirst(func(b *book, _ *history.Call) {
		b.inTx("tx", 7, history.Rollback, func() { b.claim("w3", 5, 1).Fate = history.Unknown })
	}), 7, "passed over job 1"},
	{"the queue's order was being changed", claimYoungerFirst(func(b *book, _ *history.Call) {
		order := dibs.LIFO
		removeAnswer(b.setQueue(5, dibs.QueueChange{Order: &order}))
	}), 0, ""},
}

// completeInTx writes a job that is completed in a transaction.
func completeInTx(effects int, end history.Verb, change func(finish, end *history.Call)) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		var f *history.Call
		c := b.inTx("tx", 30, end, func() { f = b.finish("w1", 20, dibs.EndCompleted, 10, 1) })
		change(f, c)
		if end == history.Rollback || len(f.Refused) > 0 {
			b.claim("w2", 120, 2, 1)
			b.finish("w2", 130, dibs.EndCompleted, 120, 1)
			b.atEnd(dibs.Completed, 2, 1)
		} else {
			b.atEnd(dibs.Completed, 1, 1)
		}
		b.Effects = map[int64]int{1: effects}
	}
}

func unchanged(_, _ *history.Call) {}
func keepAnswer(*history.Call)     {}

// claimedAndCompleted writes a job that one transaction claims and completes.
func claimedAndCompleted(effects int, end history.Verb, change func(end *history.Call)) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		change(b.inTx("tx", 30, end, func() {
			b.claim("w1", 10, 1, 1)
			b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		}))
		if end == history.Rollback {
			b.claim("w2", 120, 1, 1)
			b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		}
		b.atEnd(dibs.Completed, 1, 1)
		b.Effects = map[int64]int{1: effects}
	}
}

// claimedTwice writes a job that a transaction claims and completes, whose commit has no answer;
// then another worker claims it, again as attempt 1, and completes it without an effect.
func claimedTwice(effects int) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		removeAnswer(b.inTx("tx", 30, history.Commit, func() {
			b.claim("w1", 10, 1, 1)
			b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		}))
		b.claim("w2", 120, 1, 1)
		b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		b.atEnd(dibs.Completed, 1, 1)
		b.Effects = map[int64]int{1: effects}
	}
}

var effecting = []page{
	{"one effect of a committed transaction", completeInTx(1, history.Commit, unchanged), 0, ""},
	{"no effect of a committed transaction", completeInTx(0, history.Commit, unchanged), 8, "0 effects"},
	{"two effects of a committed transaction", completeInTx(2, history.Commit, unchanged), 8, "2 effects"},
	{"no effect after a rollback", completeInTx(0, history.Rollback, unchanged), 0, ""},
	{"an effect in spite of a rollback", completeInTx(1, history.Rollback, unchanged), 8, "no transaction"},
	{"an effect of a commit without an answer", completeInTx(1, history.Commit, func(_, end *history.Call) { removeAnswer(end) }), 0, ""},
	{"no effect of a commit without an answer that completed the job", completeInTx(0, history.Commit, func(_, end *history.Call) { removeAnswer(end) }), 8, "0 effects"},
	{"an effect of a transaction that also claims", claimedAndCompleted(1, history.Commit, keepAnswer), 0, ""},
	{"no effect of a transaction that also claims", claimedAndCompleted(0, history.Commit, keepAnswer), 8, "0 effects"},
	{"an effect of a claiming transaction whose commit had no answer", claimedAndCompleted(1, history.Commit, func(end *history.Call) { removeAnswer(end) }), 0, ""},
	{"no effect of a claiming transaction whose commit had no answer, and another completion of the attempt with its number", claimedTwice(0), 0, ""},
	{"two effects of such a job", claimedTwice(2), 8, "2 effects"},
	{"an effect of a claiming transaction that was rolled back", claimedAndCompleted(1, history.Rollback, keepAnswer), 8, "no transaction"},
	{"an effect in spite of a refusal", completeInTx(1, history.Rollback, func(f, _ *history.Call) {
		f.Begin, f.End = ms(112), ms(113)
		setRefused(f, 1)
	}), 8, "no transaction"},
}

// setUniqueKey gives all jobs of the calls the unique key u.
func setUniqueKey(until dibs.UniqueUntil, calls ...*history.Call) {
	for _, c := range calls {
		for i := range c.New {
			c.New[i].UniqueKey, c.New[i].UniqueUntil = "u", until
		}
	}
}

// twoWithOneKey writes two jobs with one unique key. The first is claimed at 10, and the second is
// enqueued at 50.
func twoWithOneKey(until dibs.UniqueUntil, finished int, change func(first, second *history.Call)) func(*book) {
	return func(b *book) {
		first, second := b.enqueue(0, 1), b.enqueue(50, 2)
		setUniqueKey(until, first, second)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", finished, dibs.EndCompleted, 10, 1)
		b.atEnd(dibs.Completed, 1, 1)
		change(first, second)
		if !second.New[0].Existing {
			b.claim("w1", 100, 1, 2)
			b.finish("w1", 110, dibs.EndCompleted, 100, 2)
			b.atEnd(dibs.Completed, 1, 2)
		}
	}
}

func answerExisting(_, second *history.Call) { second.New[0].Existing, second.New[0].ID = true, 1 }

var uniqueness = []page{
	{"two live jobs with one key", twoWithOneKey(dibs.UntilFinished, 80, unchanged), 9, "both held the unique key"},
	{"the first job with the key had finished", twoWithOneKey(dibs.UntilFinished, 30, unchanged), 0, ""},
	{"the first job with the key had been claimed", twoWithOneKey(dibs.UntilClaimed, 80, unchanged), 0, ""},
	{"the first job with the key was being finished", twoWithOneKey(dibs.UntilFinished, 50, unchanged), 0, ""},
	{"told of the first job, which holds the key", twoWithOneKey(dibs.UntilFinished, 80, answerExisting), 0, ""},
	{"told of a job that had finished", twoWithOneKey(dibs.UntilFinished, 30, answerExisting), 9, "had given it up"},
	{"told of a job that had been claimed", twoWithOneKey(dibs.UntilClaimed, 80, answerExisting), 9, "had given it up"},
	{"told of a job with another key", twoWithOneKey(dibs.UntilFinished, 80, func(first, second *history.Call) {
		answerExisting(first, second)
		second.New[0].UniqueKey = "v"
	}), 9, "which has the key"},
	{"told of a job that does not exist", twoWithOneKey(dibs.UntilFinished, 80, func(first, second *history.Call) {
		answerExisting(first, second)
		second.New[0].ID = 9
	}), 9, "never existed"},
	{"told of a job that a transaction claimed and gave back", claimedInTx(dibs.UntilFinished, dibs.EndRetry), 0, ""},
	{"told of a job that a transaction claimed and snoozed", claimedInTx(dibs.UntilFinished, dibs.EndSnooze), 0, ""},
	{"told of a job that a transaction claimed and completed", claimedInTx(dibs.UntilFinished, dibs.EndCompleted), 9, "had given it up"},
	{"told of a job that had been claimed and given back", claimedInTx(dibs.UntilClaimed, dibs.EndRetry), 9, "had given it up"},
	{"told of a deleted job whose enqueue had no answer", deletedHolder(0), 0, ""},
	{"told of a missing job that the queue would have kept", deletedHolder(time.Hour * 24 * 365), 9, "never existed"},
}

// claimedInTx writes a job whose attempt begins and ends in one transaction. Afterwards an
// enqueue is told that the job holds the unique key.
func claimedInTx(until dibs.UniqueUntil, ending dibs.Ending) func(*book) {
	return func(b *book) {
		first, second := b.enqueue(0, 1), b.enqueue(20, 2)
		setUniqueKey(until, first, second)
		answerExisting(first, second)
		b.inTx("tx", 15, history.Commit, func() {
			b.claim("t", 10, 1, 1)
			b.finish("t", 12, ending, 10, 1)
		})
		attempts := 1
		if ending != dibs.EndCompleted {
			attempts++
			c := b.claim("w", 30, 2, 1)
			if ending == dibs.EndSnooze {
				c.Jobs[0].Excused = 1
			}
			b.finish("w", 40, dibs.EndCompleted, 30, 1)
		}
		b.atEnd(dibs.Completed, attempts, 1)
		if ending == dibs.EndSnooze {
			b.Final[0].Excused = 1
		}
	}
}

// deletedHolder writes a job that died and was deleted; its enqueue and claim had no answer.
func deletedHolder(keep time.Duration) func(*book) {
	return func(b *book) {
		b.Queues[0].KeepDead, b.Queues[0].MaxAttempts = keep, 1
		first, second := b.enqueue(0, 1), b.enqueue(20, 2)
		setUniqueKey(dibs.UntilFinished, first, second)
		answerExisting(first, second)
		removeAnswer(first)
		removeAnswer(b.claim("w", 30, 1, 1))
	}
}
