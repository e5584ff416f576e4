package history_test

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

var existence = []page{
	{"an acknowledged job is gone", func(b *book) {
		b.enqueue(0, 1)
	}, 1, "is gone"},
	{"one that is not kept may be gone", func(b *book) {
		b.Queues[0].KeepCompleted = 0
		b.enqueue(0, 1)
		b.claim("w", 10, 1, 1)
		b.finish("w", 20, dibs.EndCompleted, 10, 1)
	}, 0, ""},
	{"one whose enqueuer got no answer may be there", func(b *book) {
		cut(b.enqueue(0, 1))
		b.claim("w", 10, 1, 1)
		b.finish("w", 20, dibs.EndCompleted, 10, 1)
		b.left(dibs.Completed, 1, 1)
	}, 0, ""},
	{"or not", func(b *book) {
		cut(b.enqueue(0, 1, 2))
	}, 0, ""},
	{"but not half of them", func(b *book) {
		cut(b.enqueue(0, 1, 2))
		b.claim("w", 10, 1, 1)
		b.finish("w", 20, dibs.EndCompleted, 10, 1)
		b.left(dibs.Completed, 1, 1)
	}, 1, "as a whole"},
	{"nor of a transaction", func(b *book) {
		cut(b.in("tx", 5, history.Commit, func() {
			b.enqueue(0, 1)
			b.enqueue(2, 2)
		}))
		b.claim("w", 10, 1, 1)
		b.finish("w", 20, dibs.EndCompleted, 10, 1)
		b.left(dibs.Completed, 1, 1)
	}, 1, "as a whole"},
	{"what was rolled back is claimed", func(b *book) {
		b.in("tx", 5, history.Rollback, func() { b.enqueue(0, 1) })
		b.claim("w", 10, 1, 1)
	}, 1, "rolled back"},
	{"what was never committed is there", func(b *book) {
		b.tx = "tx"
		b.enqueue(0, 1)
		b.left(dibs.Cancelled, 0, 1)
	}, 1, "rolled back"},
	{"its own transaction may claim it", func(b *book) {
		b.in("tx", 15, history.Rollback, func() {
			b.enqueue(0, 1)
			b.claim("t", 10, 1, 1)
		})
	}, 0, ""},
	{"an id that was rolled back may be given again", func(b *book) {
		b.in("tx", 5, history.Rollback, func() { b.enqueue(0, 1).New[0].Key = "other" })
		b.enqueue(10, 1)
		b.claim("w", 20, 1, 1)
		b.finish("w", 30, dibs.EndCompleted, 20, 1)
		b.left(dibs.Completed, 1, 1)
	}, 0, ""},
	{"claimed before the commit", func(b *book) {
		b.in("tx", 20, history.Commit, func() { b.enqueue(0, 1) })
		b.claim("w", 10, 1, 1)
	}, 1, "before the commit"},
	{"one key is two jobs", func(b *book) {
		b.enqueue(0, 1)
		b.left(dibs.Cancelled, 0, 1, 2)
		b.Final[1].Payload = b.Final[0].Payload
	}, 1, "became two"},
	{"nobody enqueued it", func(b *book) {
		b.left(dibs.Cancelled, 0, 1)
	}, 1, "nobody enqueued it"},
}

var ownership = []page{
	{"two owners", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 50, 2, 1)
	}, 2, "had two owners"},
	{"the lease had ended", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 112, 2, 1)
		b.finish("w2", 120, dibs.EndCompleted, 112, 1)
		b.left(dibs.Completed, 2, 1)
	}, 0, ""},
	{"the lease was extended", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.extend("w1", 50, 100, 10, 1)
		b.claim("w2", 120, 2, 1)
	}, 2, "had two owners"},
	{"the extend may have failed", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		cut(b.extend("w1", 50, 100, 10, 1))
		b.claim("w2", 120, 2, 1)
		b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		b.left(dibs.Completed, 2, 1)
	}, 0, ""},
	{"the lease was shortened", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.extend("w1", 20, 10, 10, 1)
		b.claim("w2", 50, 2, 1)
		b.finish("w2", 60, dibs.EndCompleted, 50, 1)
		b.left(dibs.Completed, 2, 1)
	}, 0, ""},
	{"a finish without an answer may have ended it", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		cut(b.finish("w1", 20, dibs.EndRelease, 10, 1))
		b.claim("w2", 50, 2, 1)
		b.finish("w2", 60, dibs.EndCompleted, 50, 1)
		b.left(dibs.Completed, 2, 1)
	}, 0, ""},
	{"a refused finish ends nothing", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		refuse(b.finish("w1", 20, dibs.EndRelease, 10, 1), 1)
		b.claim("w2", 50, 2, 1)
	}, 2, "had two owners"},
	{"resumed by its own worker", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		c := b.claim("w1", 50, 2, 1)
		c.Verb, c.Client = history.Resume, "w1 again"
		b.finish("w1", 60, dibs.EndCompleted, 50, 1)
		b.left(dibs.Completed, 2, 1)
	}, 0, ""},
	{"resumed by another", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 50, 2, 1).Verb = history.Resume
	}, 2, "a worker of another name"},
	{"claimed while a transaction holds it", func(b *book) {
		b.enqueue(0, 1)
		b.in("tx", 60, history.Rollback, func() {
			b.claim("t", 10, 1, 1)
			b.enqueue(50, 2)
		})
		b.claim("w2", 30, 1, 1)
	}, 2, "had two owners"},
	{"two transactions that overlap", func(b *book) {
		b.enqueue(0, 1)
		b.in("tx1", 60, history.Rollback, func() { b.claim("t", 10, 1, 1).End = ms(50) })
		b.in("tx2", 30, history.Rollback, func() { b.claim("t", 20, 1, 1) })
		b.claim("w", 120, 1, 1)
		b.finish("w", 130, dibs.EndCompleted, 120, 1)
		b.left(dibs.Completed, 1, 1)
	}, 0, ""},
	{"one token for two claims", func(b *book) {
		b.enqueue(0, 1, 2)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 50, 1, 2).Jobs[0].Token = token(10)
	}, 2, "the same token"},
}

var fencing = []page{
	{"accepted after the lease", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 120, dibs.EndCompleted, 10, 1)
	}, 3, "after its lease had ended"},
	{"accepted after an extend that may have come", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		cut(b.extend("w1", 100, 100, 10, 1))
		b.finish("w1", 120, dibs.EndCompleted, 10, 1)
		b.left(dibs.Completed, 1, 1)
	}, 0, ""},
	{"accepted after a shorter lease", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.extend("w1", 20, 10, 10, 1)
		b.finish("w1", 50, dibs.EndCompleted, 10, 1)
	}, 3, "after its lease had ended"},
	{"accepted twice", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndRelease, 10, 1)
		b.finish("w1", 30, dibs.EndCompleted, 10, 1)
	}, 3, "had been finished by another call"},
	{"extended after its end", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndRelease, 10, 1)
		b.extend("w1", 30, 100, 10, 1)
	}, 3, "had been finished by another call"},
	{"accepted after another claim", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		cut(b.finish("w1", 20, dibs.EndRelease, 10, 1))
		b.claim("w2", 30, 2, 1)
		b.finish("w1", 40, dibs.EndCompleted, 10, 1)
	}, 3, "had been given to w2"},
	{"accepted without a claim", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndCompleted, 11, 1)
	}, 3, "no claim of the job was given"},
	{"refused with a good lease", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		refuse(b.finish("w1", 20, dibs.EndCompleted, 10, 1), 1)
	}, 3, "refused wrongly"},
	{"refused after a finish without an answer", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		cut(b.finish("w1", 20, dibs.EndCompleted, 10, 1))
		refuse(b.finish("w1", 30, dibs.EndCompleted, 10, 1), 1)
		b.left(dibs.Completed, 1, 1)
	}, 0, ""},
	{"refused after a resume without an answer", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		c := cut(b.claim("w1", 20, 2, 1))
		c.Verb = history.Resume
		refuse(b.finish("w1", 30, dibs.EndCompleted, 10, 1), 1)
		b.claim("w2", 130, 3, 1)
		b.finish("w2", 140, dibs.EndCompleted, 130, 1)
		b.left(dibs.Completed, 3, 1)
	}, 0, ""},
	{"a cancel races a finish", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		c := b.change(history.Cancel, 20, 1)
		c.Asked = c.Changed
		b.finish("w1", 20, dibs.EndRelease, 10, 1)
		b.left(dibs.Cancelled, 1, 1)
	}, 0, ""},
	{"a refused finish left its result", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 120, 2, 1)
		cut(b.finish("w2", 130, dibs.EndCompleted, 120, 1))
		c := refuse(b.finish("w1", 140, dibs.EndCompleted, 10, 1), 1)
		c.Outcomes[0].Result = []byte(`"of w1"`)
		b.left(dibs.Completed, 2, 1)
		b.Final[0].Result = []byte(`"of w1"`)
	}, 3, "no call that was accepted"},
	{"a refused finish left its error", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		refuse(b.finish("w1", 112, dibs.EndDead, 10, 1), 1).Outcomes[0].Error = "of w1"
		b.claim("w2", 120, 2, 1)
		b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		b.left(dibs.Completed, 2, 1)
		b.Final[0].Errors = []dibs.AttemptError{{Attempt: 1, Error: "of w1"}}
	}, 3, `the error "of w1"`},
}

var endings = []page{
	{"still waiting at the end", func(b *book) {
		b.enqueue(0, 1)
		b.left(dibs.Waiting, 0, 1)
	}, 4, "left behind"},
	{"an acknowledged finish is lost", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		b.left(dibs.Dead, 1, 1)
	}, 4, "acknowledged finish was lost"},
	{"a job ends twice", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndDead, 10, 1)
		b.claim("w2", 30, 2, 1)
		b.finish("w2", 40, dibs.EndCompleted, 30, 1)
		b.left(dibs.Completed, 2, 1)
	}, 4, "ended twice"},
	{"unless it was requeued", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndDead, 10, 1)
		b.change(history.Requeue, 25, 1)
		b.claim("w2", 30, 2, 1).Jobs[0].Excused = 1
		b.finish("w2", 40, dibs.EndCompleted, 30, 1)
		b.left(dibs.Completed, 2, 1)
	}, 0, ""},
	{"the check of the database found something", func(b *book) {
		b.Check = []string{"a row too many"}
	}, 4, "a row too many"},
	{"there twice", func(b *book) {
		b.enqueue(0, 1)
		b.change(history.Cancel, 10, 1)
		b.left(dibs.Cancelled, 0, 1, 1)
	}, 4, "twice"},
	{"left lying by claims that found nothing", limbo(func(*book) {}), 4, "in limbo"},
	{"not while the queue is paused", limbo(func(b *book) {
		yes := true
		b.set(10, dibs.QueueChange{Paused: &yes})
	}), 0, ""},
	{"not while the server was restarted", limbo(func(b *book) {
		c := b.call("f", history.Fault, 100)
		c.Text, c.End = "restart", ms(3000)
	}), 0, ""},
	{"not if a claim without an answer may have held it", limbo(func(b *book) {
		cut(b.claim("w2", 1500, 1))
	}), 0, ""},
	{"not while an operator changed it", limbo(func(b *book) {
		b.change(history.Edit, 1400, 1)
	}), 0, ""},
}

// limbo is a job that is claimed 3.5 s after it was enqueued, while a worker asked
// every 200 ms.
func limbo(meanwhile func(*book)) func(*book) {
	return func(b *book) {
		b.claim("w", 0, 1)
		b.enqueue(1, 1)
		for at := 200; at < 3500; at += 200 {
			b.claim("w", at, 1)
		}
		meanwhile(b)
		b.claim("w", 3500, 1, 1)
		b.finish("w", 3510, dibs.EndCompleted, 3500, 1)
		b.left(dibs.Completed, 1, 1)
	}
}

var numbering = []page{
	{"one attempt twice", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 120, 1, 1)
	}, 5, "given twice"},
	{"unless the first was rolled back", func(b *book) {
		b.enqueue(0, 1)
		b.in("tx", 20, history.Rollback, func() { b.claim("t", 10, 1, 1) })
		b.claim("w2", 120, 1, 1)
		b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		b.left(dibs.Completed, 1, 1)
	}, 0, ""},
	{"a number that nobody was given", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 2, 1)
	}, 5, "were given to nobody"},
	{"unless a claim had no answer", func(b *book) {
		b.enqueue(0, 1)
		cut(b.claim("w1", 10, 1, 1))
		b.claim("w2", 120, 2, 1)
		b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		b.left(dibs.Completed, 2, 1)
	}, 0, ""},
	{"numbers that fall", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 2, 1)
		b.claim("w2", 120, 1, 1)
	}, 5, "only grow"},
	{"more attempts than allowed", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1).Jobs[0].MaxAttempts = 1
		b.claim("w2", 120, 2, 1).Jobs[0].MaxAttempts = 1
	}, 5, "were used up"},
	{"a release that counts", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndRelease, 10, 1)
		b.claim("w2", 30, 2, 1)
	}, 5, "1 to 1 were released"},
	{"a retry that does not", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndRetry, 10, 1)
		b.claim("w2", 30, 2, 1).Jobs[0].Excused = 1
	}, 5, "0 to 0 were released"},
}

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
	{"it had the better priority", overtaking(func(_ *book, c *history.Call) { c.Jobs[0].Priority = 1 }), 0, ""},
	{"within the slack", overtaking(func(b *book, _ *history.Call) { b.Slack = 20 * time.Millisecond }), 0, ""},
	{"the other may have been locked", overtaking(func(b *book, _ *history.Call) { b.claim("w3", 9, 1).Fate = history.Unknown }), 0, ""},
	{"the order was being changed", overtaking(func(b *book, _ *history.Call) {
		any := dibs.AnyOrder
		cut(b.set(5, dibs.QueueChange{Order: &any}))
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

var effecting = []page{
	{"exactly once", transacted(1, history.Commit, unchanged), 0, ""},
	{"not at all", transacted(0, history.Commit, unchanged), 8, "0 effects"},
	{"twice", transacted(2, history.Commit, unchanged), 8, "2 effects"},
	{"rolled back", transacted(0, history.Rollback, unchanged), 0, ""},
	{"in spite of a rollback", transacted(1, history.Rollback, unchanged), 8, "no transaction"},
	{"a commit without an answer", transacted(1, history.Commit, func(_, end *history.Call) { cut(end) }), 0, ""},
	{"a commit without an answer that lost its effect", transacted(0, history.Commit, func(_, end *history.Call) { cut(end) }), 8, "0 effects"},
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
}
