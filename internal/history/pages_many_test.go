package history_test

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

// three enqueues three jobs of one group, and claims the first.
func three(b *book) *history.Call {
	c := b.enqueue(0, 1, 2, 3)
	group(c, b.claim("w1", 10, 1, 1))
	return c
}

var limiting = []page{
	{"two of a group", func(b *book) {
		three(b)
		group(b.claim("w2", 20, 1, 2))
	}, 6, "ran at once"},
	{"two of a group in one claim", func(b *book) {
		group(b.enqueue(0, 1, 2), b.claim("w2", 20, 1, 1, 2))
	}, 6, "2 jobs of group"},
	{"one after the other", func(b *book) {
		three(b)
		b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		group(b.claim("w2", 30, 1, 2))
		b.finish("w2", 40, dibs.EndCompleted, 30, 2)
		group(b.claim("w2", 50, 1, 3))
		b.finish("w2", 60, dibs.EndCompleted, 50, 3)
		b.atEnd(dibs.Completed, 1, 1, 2, 3)
	}, 0, ""},
	{"a limit that is being raised", func(b *book) {
		three(b)
		c := b.call("o", history.SetGroup, 15)
		c.Queue, c.Group, c.Limit, c.End = "q", "g", 2, ms(30)
		group(b.claim("w2", 20, 1, 2))
		b.finish("w1", 40, dibs.EndCompleted, 10, 1)
		b.finish("w2", 40, dibs.EndCompleted, 20, 2)
		group(b.claim("w2", 50, 1, 3))
		b.finish("w2", 60, dibs.EndCompleted, 50, 3)
		b.atEnd(dibs.Completed, 1, 1, 2, 3)
	}, 0, ""},
	{"a limit that was lowered", func(b *book) {
		b.Groups = map[string]map[string]int{"q": {"g": 2}}
		three(b)
		c := b.call("o", history.SetGroup, 15)
		c.Queue, c.Group, c.Limit = "q", "g", 1
		group(b.claim("w2", 20, 1, 2))
	}, 6, "the limit was 1 at most"},
	{"more than the queue's limit", func(b *book) {
		b.Queues[0].Concurrency = 2
		b.enqueue(0, 1, 2, 3)
		b.claim("w1", 10, 1, 1, 2)
		b.claim("w2", 20, 1, 3)
	}, 6, `3 jobs of queue "q"`},
	{"out of order in a group", func(b *book) {
		group(b.enqueue(0, 1, 2), b.claim("w1", 10, 1, 2))
		b.finish("w1", 20, dibs.EndCompleted, 10, 2)
		group(b.claim("w2", 30, 1, 1))
	}, 6, "comes before it"},
	{"the first was being enqueued", func(b *book) {
		c := b.enqueue(0, 1)
		c.End = ms(15)
		group(c, b.enqueue(1, 2), b.claim("w1", 10, 1, 2))
		b.finish("w1", 20, dibs.EndCompleted, 10, 2)
		group(b.claim("w2", 30, 1, 1))
		b.finish("w2", 40, dibs.EndCompleted, 30, 1)
		b.atEnd(dibs.Completed, 1, 1, 2)
	}, 0, ""},
	{"a retry lets the next pass", passing(false), 0, ""},
	{"but not in a strict queue", passing(true), 6, "kept its place"},
	{"the first was done, and requeued while a claim waited that took it", func(b *book) {
		b.Queues[0].Strict = true
		group(b.enqueue(0, 1, 2), b.claim("w1", 10, 1, 1))
		b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		group(b.claim("w1", 30, 1, 2))
		b.finish("w1", 40, dibs.EndCompleted, 30, 2)
		b.change(history.Requeue, 60, 1)
		c := b.claim("w2", 50, 2, 1)
		c.End = ms(70)
		group(c)
		c.Jobs[0].RunAt, c.Jobs[0].Excused = ms(61), 1
		c.Jobs[0].ClaimedAt, c.Jobs[0].LeaseUntil = ms(62), ms(162)
		b.finish("w2", 80, dibs.EndCompleted, 50, 1)
		b.atEnd(dibs.Completed, 1, 2).atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
}

// passing writes a group whose second job starts while the first waits for its retry.
func passing(strict bool) func(*book) {
	return func(b *book) {
		b.Queues[0].Strict = strict
		three(b)
		b.finish("w1", 20, dibs.EndRetry, 10, 1)
		group(b.claim("w2", 30, 1, 2))
		b.finish("w2", 40, dibs.EndCompleted, 30, 2)
		group(b.claim("w2", 50, 1, 3))
		b.finish("w2", 60, dibs.EndCompleted, 50, 3)
		c := b.claim("w2", 70, 2, 1)
		group(c)
		c.Jobs[0].RunAt = ms(65)
		b.finish("w2", 80, dibs.EndCompleted, 70, 1)
		b.atEnd(dibs.Completed, 1, 2, 3).atEnd(dibs.Completed, 2, 1)
	}
}

// overtaking writes a queue whose second job is claimed first.
func overtaking(change func(*book, *history.Call)) func(*book) {
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
	{"the younger job is claimed first", overtaking(func(*book, *history.Call) {}), 7, "passed over job 1"},
	{"the claim asked for some kinds only", overtaking(func(_ *book, c *history.Call) { c.Kinds = true }), 0, ""},
	{"the younger job had the better priority", overtaking(func(b *book, c *history.Call) { b.Calls[0].New[1].Priority, c.Jobs[0].Priority = 1, 1 }), 0, ""},
	{"the older job waited for less than the slack", overtaking(func(b *book, _ *history.Call) { b.OrderSlack = 20 * time.Millisecond }), 0, ""},
	{"the older job may have been locked", overtaking(func(b *book, _ *history.Call) { b.claim("w3", 9, 1).Fate = history.Unknown }), 0, ""},
	{"the queue's order was being changed", overtaking(func(b *book, _ *history.Call) {
		order := dibs.LIFO
		cut(b.set(5, dibs.QueueChange{Order: &order}))
	}), 0, ""},
}

// transacted writes a job that is completed in a transaction.
func transacted(effects int, end history.Verb, change func(finish, end *history.Call)) func(*book) {
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
func answered(*history.Call)       {}

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

var effecting = []page{
	{"one effect of a committed transaction", transacted(1, history.Commit, unchanged), 0, ""},
	{"no effect of a committed transaction", transacted(0, history.Commit, unchanged), 8, "0 effects"},
	{"two effects of a committed transaction", transacted(2, history.Commit, unchanged), 8, "2 effects"},
	{"no effect after a rollback", transacted(0, history.Rollback, unchanged), 0, ""},
	{"an effect in spite of a rollback", transacted(1, history.Rollback, unchanged), 8, "no transaction"},
	{"an effect of a commit without an answer", transacted(1, history.Commit, func(_, end *history.Call) { cut(end) }), 0, ""},
	{"no effect of a commit without an answer that completed the job", transacted(0, history.Commit, func(_, end *history.Call) { cut(end) }), 8, "0 effects"},
	{"an effect of a transaction that also claims", claimedAndCompleted(1, history.Commit, answered), 0, ""},
	{"no effect of a transaction that also claims", claimedAndCompleted(0, history.Commit, answered), 8, "0 effects"},
	{"an effect of a claiming transaction whose commit had no answer", claimedAndCompleted(1, history.Commit, func(end *history.Call) { cut(end) }), 0, ""},
	{"an effect of a claiming transaction that was rolled back", claimedAndCompleted(1, history.Rollback, answered), 8, "no transaction"},
	{"an effect in spite of a refusal", transacted(1, history.Rollback, func(f, _ *history.Call) {
		f.Begin, f.End = ms(112), ms(113)
		refuse(f, 1)
	}), 8, "no transaction"},
}

// keyed gives all jobs of the calls a unique key.
func keyed(until dibs.UniqueUntil, calls ...*history.Call) {
	for _, c := range calls {
		for i := range c.New {
			c.New[i].UniqueKey, c.New[i].UniqueUntil = "u", until
		}
	}
}

// twins writes two jobs with one unique key. The first is claimed at 10, and the second is
// enqueued at 50.
func twins(until dibs.UniqueUntil, finished int, change func(first, second *history.Call)) func(*book) {
	return func(b *book) {
		first, second := b.enqueue(0, 1), b.enqueue(50, 2)
		keyed(until, first, second)
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

func exists(_, second *history.Call) { second.New[0].Existing, second.New[0].ID = true, 1 }

var uniqueness = []page{
	{"two live jobs with one key", twins(dibs.UntilFinished, 80, unchanged), 9, "both held the unique key"},
	{"the first job with the key had finished", twins(dibs.UntilFinished, 30, unchanged), 0, ""},
	{"the first job with the key had been claimed", twins(dibs.UntilClaimed, 80, unchanged), 0, ""},
	{"the first job with the key was being finished", twins(dibs.UntilFinished, 50, unchanged), 0, ""},
	{"told of the first job, which holds the key", twins(dibs.UntilFinished, 80, exists), 0, ""},
	{"told of a job that had finished", twins(dibs.UntilFinished, 30, exists), 9, "had given it up"},
	{"told of a job that had been claimed", twins(dibs.UntilClaimed, 80, exists), 9, "had given it up"},
	{"told of a job with another key", twins(dibs.UntilFinished, 80, func(first, second *history.Call) {
		exists(first, second)
		second.New[0].UniqueKey = "v"
	}), 9, "which has the key"},
	{"told of a job that does not exist", twins(dibs.UntilFinished, 80, func(first, second *history.Call) {
		exists(first, second)
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
		keyed(until, first, second)
		exists(first, second)
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
		keyed(dibs.UntilFinished, first, second)
		exists(first, second)
		cut(first)
		cut(b.claim("w", 30, 1, 1))
	}
}
