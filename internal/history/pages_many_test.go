package history_test

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

// three enqueues jobs of one group, and gives out and finishes the first.
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
		b.left(dibs.Completed, 1, 1, 2, 3)
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
		b.left(dibs.Completed, 1, 1, 2, 3)
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
		b.left(dibs.Completed, 1, 1, 2)
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
		b.left(dibs.Completed, 1, 2).left(dibs.Completed, 2, 1)
	}, 0, ""},
}

// passing is a group whose second job starts while the first waits for its retry.
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
		b.left(dibs.Completed, 1, 2, 3).left(dibs.Completed, 2, 1)
	}
}

// overtaking is a queue whose second job is claimed first.
func overtaking(change func(*book, *history.Call)) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1, 2)
		c := b.claim("w1", 10, 1, 2)
		change(b, c)
		b.claim("w2", 30, 1, 1)
		b.finish("w1", 40, dibs.EndCompleted, 10, 2)
		b.finish("w2", 50, dibs.EndCompleted, 30, 1)
		b.left(dibs.Completed, 1, 1, 2)
	}
}

var ordering = []page{
	{"the younger first", overtaking(func(*book, *history.Call) {}), 7, "passed over job 1"},
	{"it was asked for by kind", overtaking(func(_ *book, c *history.Call) { c.Kinds = true }), 0, ""},
	{"it had the better priority", overtaking(func(b *book, c *history.Call) { b.Calls[0].New[1].Priority, c.Jobs[0].Priority = 1, 1 }), 0, ""},
	{"within the slack", overtaking(func(b *book, _ *history.Call) { b.OrderSlack = 20 * time.Millisecond }), 0, ""},
	{"the other may have been locked", overtaking(func(b *book, _ *history.Call) { b.claim("w3", 9, 1).Fate = history.Unknown }), 0, ""},
	{"the order was being changed", overtaking(func(b *book, _ *history.Call) {
		order := dibs.LIFO
		cut(b.set(5, dibs.QueueChange{Order: &order}))
	}), 0, ""},
}

// transacted is a job that is finished in a transaction.
func transacted(effects int, end history.Verb, change func(finish, end *history.Call)) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		var f *history.Call
		c := b.in("tx", 30, end, func() { f = b.finish("w1", 20, dibs.EndCompleted, 10, 1) })
		change(f, c)
		if end == history.Rollback || len(f.Refused) > 0 {
			b.claim("w2", 120, 2, 1)
			b.finish("w2", 130, dibs.EndCompleted, 120, 1)
			b.left(dibs.Completed, 2, 1)
		} else {
			b.left(dibs.Completed, 1, 1)
		}
		b.Effects = map[int64]int{1: effects}
	}
}

func unchanged(_, _ *history.Call) {}
func answered(*history.Call)       {}

// claimed is a job that one transaction claims and completes.
func claimed(effects int, end history.Verb, change func(end *history.Call)) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		change(b.in("tx", 30, end, func() {
			b.claim("w1", 10, 1, 1)
			b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		}))
		if end == history.Rollback {
			b.claim("w2", 120, 1, 1)
			b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		}
		b.left(dibs.Completed, 1, 1)
		b.Effects = map[int64]int{1: effects}
	}
}

var effecting = []page{
	{"exactly once", transacted(1, history.Commit, unchanged), 0, ""},
	{"not at all", transacted(0, history.Commit, unchanged), 8, "0 effects"},
	{"twice", transacted(2, history.Commit, unchanged), 8, "2 effects"},
	{"rolled back", transacted(0, history.Rollback, unchanged), 0, ""},
	{"in spite of a rollback", transacted(1, history.Rollback, unchanged), 8, "no transaction"},
	{"a commit without an answer", transacted(1, history.Commit, func(_, end *history.Call) { cut(end) }), 0, ""},
	{"a commit without an answer that lost its effect", transacted(0, history.Commit, func(_, end *history.Call) { cut(end) }), 8, "0 effects"},
	{"once by a transaction that claims, too", claimed(1, history.Commit, answered), 0, ""},
	{"not at all by a transaction that claims, too", claimed(0, history.Commit, answered), 8, "0 effects"},
	{"by one whose commit had no answer", claimed(1, history.Commit, func(end *history.Call) { cut(end) }), 0, ""},
	{"by one that was rolled back", claimed(1, history.Rollback, answered), 8, "no transaction"},
	{"in spite of a refusal", transacted(1, history.Rollback, func(f, _ *history.Call) {
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

// twins are two jobs of one key; the second is enqueued at 50, and the first has been
// claimed at 10 and finished at 30, or so.
func twins(until dibs.UniqueUntil, finished int, change func(first, second *history.Call)) func(*book) {
	return func(b *book) {
		first, second := b.enqueue(0, 1), b.enqueue(50, 2)
		keyed(until, first, second)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", finished, dibs.EndCompleted, 10, 1)
		b.left(dibs.Completed, 1, 1)
		change(first, second)
		if !second.New[0].Existing {
			b.claim("w1", 100, 1, 2)
			b.finish("w1", 110, dibs.EndCompleted, 100, 2)
			b.left(dibs.Completed, 1, 2)
		}
	}
}

func exists(_, second *history.Call) { second.New[0].Existing, second.New[0].ID = true, 1 }

var uniqueness = []page{
	{"two live jobs", twins(dibs.UntilFinished, 80, unchanged), 9, "both held the unique key"},
	{"the first had finished", twins(dibs.UntilFinished, 30, unchanged), 0, ""},
	{"the first had been claimed", twins(dibs.UntilClaimed, 80, unchanged), 0, ""},
	{"the first was just being finished", twins(dibs.UntilFinished, 50, unchanged), 0, ""},
	{"told of the first", twins(dibs.UntilFinished, 80, exists), 0, ""},
	{"told of one that had finished", twins(dibs.UntilFinished, 30, exists), 9, "had given it up"},
	{"told of one that had been claimed", twins(dibs.UntilClaimed, 80, exists), 9, "had given it up"},
	{"told of one with another key", twins(dibs.UntilFinished, 80, func(first, second *history.Call) {
		exists(first, second)
		second.New[0].UniqueKey = "v"
	}), 9, "which has the key"},
	{"told of none", twins(dibs.UntilFinished, 80, func(first, second *history.Call) {
		exists(first, second)
		second.New[0].ID = 9
	}), 9, "there never was"},
	{"told of one that a transaction claimed and gave back", claimedInTx(dibs.UntilFinished, dibs.EndRetry), 0, ""},
	{"told of one that a transaction claimed and snoozed", claimedInTx(dibs.UntilFinished, dibs.EndSnooze), 0, ""},
	{"told of one that a transaction claimed and completed", claimedInTx(dibs.UntilFinished, dibs.EndCompleted), 9, "had given it up"},
	{"told of one that had been claimed and given back", claimedInTx(dibs.UntilClaimed, dibs.EndRetry), 9, "had given it up"},
	{"told of one that is gone, and nobody was told of before", unheard(0), 0, ""},
	{"told of one that is gone though it must be kept", unheard(time.Hour * 24 * 365), 9, "there never was"},
}

// claimedInTx is a job that one transaction claims and ends so; then an enqueue is told
// that it holds its key.
func claimedInTx(until dibs.UniqueUntil, ending dibs.Ending) func(*book) {
	return func(b *book) {
		first, second := b.enqueue(0, 1), b.enqueue(20, 2)
		keyed(until, first, second)
		exists(first, second)
		b.in("tx", 15, history.Commit, func() {
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
		b.left(dibs.Completed, attempts, 1)
		if ending == dibs.EndSnooze {
			b.Final[0].Excused = 1
		}
	}
}

// unheard is a job whose enqueuer and whose claimer got no answer, and which died.
func unheard(keep time.Duration) func(*book) {
	return func(b *book) {
		b.Queues[0].KeepDead, b.Queues[0].MaxAttempts = keep, 1
		first, second := b.enqueue(0, 1), b.enqueue(20, 2)
		keyed(dibs.UntilFinished, first, second)
		exists(first, second)
		cut(first)
		cut(b.claim("w", 30, 1, 1))
	}
}
