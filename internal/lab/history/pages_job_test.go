package history_test

import (
	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

var existence = []page{
	{"an acknowledged job is gone", func(b *book) {
		b.enqueue(0, 1)
	}, 1, "is gone"},
	{"a finished job that the queue does not keep may be gone", func(b *book) {
		b.Queues[0].KeepCompleted = 0
		b.enqueue(0, 1)
		b.claim("w", 10, 1, 1)
		b.finish("w", 20, dibs.EndCompleted, 10, 1)
	}, 0, ""},
	{"a job whose enqueue had no answer may exist", func(b *book) {
		removeAnswer(b.enqueue(0, 1))
		b.claim("w", 10, 1, 1)
		b.finish("w", 20, dibs.EndCompleted, 10, 1)
		b.atEnd(dibs.Completed, 1, 1)
	}, 0, ""},
	{"a job whose enqueue had no answer may not exist", func(b *book) {
		removeAnswer(b.enqueue(0, 1, 2))
	}, 0, ""},
	{"half of a batch without an answer is missing", func(b *book) {
		removeAnswer(b.enqueue(0, 1, 2))
		b.claim("w", 10, 1, 1)
		b.finish("w", 20, dibs.EndCompleted, 10, 1)
		b.atEnd(dibs.Completed, 1, 1)
	}, 1, "as a whole"},
	{"half of a transaction without an answer is missing", func(b *book) {
		removeAnswer(b.inTx("tx", 5, history.Commit, func() {
			b.enqueue(0, 1)
			b.enqueue(2, 2)
		}))
		b.claim("w", 10, 1, 1)
		b.finish("w", 20, dibs.EndCompleted, 10, 1)
		b.atEnd(dibs.Completed, 1, 1)
	}, 1, "as a whole"},
	{"a job that was rolled back is claimed", func(b *book) {
		b.inTx("tx", 5, history.Rollback, func() { b.enqueue(0, 1) })
		b.claim("w", 10, 1, 1)
	}, 1, "rolled back"},
	{"a job that was never committed exists", func(b *book) {
		b.tx = "tx"
		b.enqueue(0, 1)
		b.atEnd(dibs.Cancelled, 0, 1)
	}, 1, "rolled back"},
	{"the transaction that enqueued a job may claim it", func(b *book) {
		b.inTx("tx", 15, history.Rollback, func() {
			b.enqueue(0, 1)
			b.claim("t", 10, 1, 1)
		})
	}, 0, ""},
	{"an id that was rolled back may be given again", func(b *book) {
		b.inTx("tx", 5, history.Rollback, func() { b.enqueue(0, 1).New[0].Key = "other" })
		b.enqueue(10, 1)
		b.claim("w", 20, 1, 1)
		b.finish("w", 30, dibs.EndCompleted, 20, 1)
		b.atEnd(dibs.Completed, 1, 1)
	}, 0, ""},
	{"a job is claimed before the commit of its enqueue", func(b *book) {
		b.inTx("tx", 20, history.Commit, func() { b.enqueue(0, 1) })
		b.claim("w", 10, 1, 1)
	}, 1, "before the commit"},
	{"two jobs have one key", func(b *book) {
		b.enqueue(0, 1)
		b.atEnd(dibs.Cancelled, 0, 1, 2)
		b.Final[1].Payload = b.Final[0].Payload
	}, 1, "became two"},
	{"a job that nobody enqueued", func(b *book) {
		b.atEnd(dibs.Cancelled, 0, 1)
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
		b.atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
	{"the lease was extended", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.extend("w1", 50, 100, 10, 1)
		b.claim("w2", 120, 2, 1)
	}, 2, "had two owners"},
	{"the extend had no answer", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		removeAnswer(b.extend("w1", 50, 100, 10, 1))
		b.claim("w2", 120, 2, 1)
		b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		b.atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
	{"the lease was shortened", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.extend("w1", 20, 10, 10, 1)
		b.claim("w2", 50, 2, 1)
		b.finish("w2", 60, dibs.EndCompleted, 50, 1)
		b.atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
	{"a finish without an answer may have ended it", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		removeAnswer(b.finish("w1", 20, dibs.EndRelease, 10, 1))
		b.claim("w2", 50, 2, 1)
		b.finish("w2", 60, dibs.EndCompleted, 50, 1)
		b.atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
	{"a refused finish ends nothing", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		setRefused(b.finish("w1", 20, dibs.EndRelease, 10, 1), 1)
		b.claim("w2", 50, 2, 1)
	}, 2, "had two owners"},
	{"resumed by its own worker", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		c := b.claim("w1", 50, 2, 1)
		c.Verb, c.Client = history.Resume, "w1 again"
		b.finish("w1", 60, dibs.EndCompleted, 50, 1)
		b.atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
	{"resumed by another worker", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 50, 2, 1).Verb = history.Resume
	}, 2, "a worker of another name"},
	{"claimed while a transaction holds it", func(b *book) {
		b.enqueue(0, 1)
		b.inTx("tx", 60, history.Rollback, func() {
			b.claim("t", 10, 1, 1)
			b.enqueue(50, 2)
		})
		b.claim("w2", 30, 1, 1)
	}, 2, "had two owners"},
	{"claimed while it is leased to a transaction that was committed", func(b *book) {
		b.enqueue(0, 1)
		b.inTx("tx", 20, history.Commit, func() { b.claim("t", 10, 1, 1) })
		b.claim("w2", 50, 2, 1)
	}, 2, "had two owners"},
	{"claimed after the lease, while the transaction is open", func(b *book) {
		b.enqueue(0, 1)
		b.inTx("tx", 200, history.Commit, func() { b.claim("t", 10, 1, 1) })
		b.claim("w2", 150, 2, 1)
	}, 2, "had two owners"},
	{"claimed after the lease of a transaction that was committed", func(b *book) {
		b.enqueue(0, 1)
		b.inTx("tx", 20, history.Commit, func() { b.claim("t", 10, 1, 1) })
		b.claim("w2", 150, 2, 1)
		b.finish("w2", 160, dibs.EndCompleted, 150, 1)
		b.atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
	{"two transactions that overlap", func(b *book) {
		b.enqueue(0, 1)
		b.inTx("tx1", 60, history.Rollback, func() { b.claim("t", 10, 1, 1).End = ms(50) })
		b.inTx("tx2", 30, history.Rollback, func() { b.claim("t", 20, 1, 1) })
		b.claim("w", 120, 1, 1)
		b.finish("w", 130, dibs.EndCompleted, 120, 1)
		b.atEnd(dibs.Completed, 1, 1)
	}, 0, ""},
	{"one token for two claims", func(b *book) {
		b.enqueue(0, 1, 2)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 50, 1, 2).Jobs[0].Token = token(10)
	}, 2, "the same token"},
	{"one token for two claims of one client, one after the other", func(b *book) {
		b.enqueue(0, 1, 2)
		b.claim("w", 10, 1, 1)
		b.claim("w", 50, 1, 2).Jobs[0].Token = token(10)
	}, 2, "the same token"},
	{"one token for two claims of one client at the same time", func(b *book) {
		b.enqueue(0, 1, 2)
		b.claim("w", 10, 1, 1).End = ms(30)
		b.claim("w", 20, 1, 2).Jobs[0].Token = token(10)
		b.finish("w", 40, dibs.EndCompleted, 10, 1, 2)
		b.atEnd(dibs.Completed, 1, 1, 2)
	}, 0, ""},
}

var fencing = []page{
	{"extended while its finish was being committed", extendedInCommit(40), 0, ""},
	{"extended after its finish was committed", extendedInCommit(70), 3, "finished by another call"},
	{"accepted after the lease", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 120, dibs.EndCompleted, 10, 1)
	}, 3, "after its lease had ended"},
	{"accepted after an extend without an answer", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		removeAnswer(b.extend("w1", 100, 100, 10, 1))
		b.finish("w1", 120, dibs.EndCompleted, 10, 1)
		b.atEnd(dibs.Completed, 1, 1)
	}, 0, ""},
	{"accepted after a lease that was shortened", func(b *book) {
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
		removeAnswer(b.finish("w1", 20, dibs.EndRelease, 10, 1))
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
		setRefused(b.finish("w1", 20, dibs.EndCompleted, 10, 1), 1)
	}, 3, "refused wrongly"},
	{"refused after a finish without an answer", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		removeAnswer(b.finish("w1", 20, dibs.EndCompleted, 10, 1))
		setRefused(b.finish("w1", 30, dibs.EndCompleted, 10, 1), 1)
		b.atEnd(dibs.Completed, 1, 1)
	}, 0, ""},
	{"refused after a resume without an answer", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		c := removeAnswer(b.claim("w1", 20, 2, 1))
		c.Verb = history.Resume
		setRefused(b.finish("w1", 30, dibs.EndCompleted, 10, 1), 1)
		b.claim("w2", 130, 3, 1)
		b.finish("w2", 140, dibs.EndCompleted, 130, 1)
		b.atEnd(dibs.Completed, 3, 1)
	}, 0, ""},
	{"a cancel races a finish", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		c := b.operatorCall(history.Cancel, 20, 1)
		c.Asked = c.Changed
		b.finish("w1", 20, dibs.EndRelease, 10, 1)
		b.atEnd(dibs.Cancelled, 1, 1)
	}, 0, ""},
	{"a refused finish left its result", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 120, 2, 1)
		removeAnswer(b.finish("w2", 130, dibs.EndCompleted, 120, 1))
		c := setRefused(b.finish("w1", 140, dibs.EndCompleted, 10, 1), 1)
		c.Outcomes[0].Result = []byte(`"of w1"`)
		b.atEnd(dibs.Completed, 2, 1)
		b.Final[0].Result = []byte(`"of w1"`)
	}, 3, "no call that was accepted"},
	{"a refused finish left its error", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		setRefused(b.finish("w1", 112, dibs.EndDead, 10, 1), 1).Outcomes[0].Error = "of w1"
		b.claim("w2", 120, 2, 1)
		b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		b.atEnd(dibs.Completed, 2, 1)
		b.Final[0].Errors = []dibs.AttemptError{{Attempt: 1, Error: "of w1"}}
	}, 3, `the error "of w1"`},
	{"a finish after its claim was rolled back to a savepoint is refused", rolledBackClaim(true), 0, ""},
	{"a finish after its claim was rolled back to a savepoint is accepted", rolledBackClaim(false), 3, "outside of the transaction"},
	{"finished by the transaction that claimed it, after the lease", longClaim("tx", false), 0, ""},
	{"refused to the transaction that claimed it, after the lease", longClaim("tx", true), 3, "refused wrongly"},
	{"finished by another transaction after the lease", longClaim("other", false), 3, "after its lease had ended"},
	{"refused to another transaction after the lease", longClaim("other", true), 0, ""},
}

var endings = []page{
	{"still waiting at the end", func(b *book) {
		b.enqueue(0, 1)
		b.atEnd(dibs.Waiting, 0, 1)
	}, 4, "left behind"},
	{"an acknowledged finish is lost", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		b.atEnd(dibs.Dead, 1, 1)
	}, 4, "acknowledged finish was lost"},
	{"a job ends twice", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndDead, 10, 1)
		b.claim("w2", 30, 2, 1)
		b.finish("w2", 40, dibs.EndCompleted, 30, 1)
		b.atEnd(dibs.Completed, 2, 1)
	}, 4, "ended twice"},
	{"a job ends again after it was requeued", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndDead, 10, 1)
		b.operatorCall(history.Requeue, 25, 1)
		b.claim("w2", 30, 2, 1).Jobs[0].Excused = 1
		b.finish("w2", 40, dibs.EndCompleted, 30, 1)
		b.atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
	{"the check of the database found something", func(b *book) {
		b.Check = []string{"a row too many"}
	}, 4, "a row too many"},
	{"a job is there twice", func(b *book) {
		b.enqueue(0, 1)
		b.operatorCall(history.Cancel, 10, 1)
		b.atEnd(dibs.Cancelled, 0, 1, 1)
	}, 4, "twice"},
	{"claims find nothing though a job waits", limbo(0, func(*book) {}), 4, "in limbo"},
	{"the queue was paused", limbo(0, func(b *book) {
		pause(b, 10)
		no := false
		b.setQueue(3450, dibs.QueueChange{Paused: &no})
	}), 0, ""},
	{"the server was restarted", limbo(0, func(b *book) {
		c := b.call("f", history.Fault, 100)
		c.Text, c.End = "server killed", ms(3000)
	}), 0, ""},
	{"a claim without an answer may have held the job", limbo(0, func(b *book) {
		removeAnswer(b.claim("w2", 1500, 1))
	}), 0, ""},
	{"claims asked only for jobs ahead", limbo(0, func(b *book) { askAhead(b, 10) }), 0, ""},
	{"claims asked for one job that is not ahead", limbo(0, func(b *book) { askAhead(b, 9) }), 4, "in limbo"},
	{"an operator changed the job", limbo(0, func(b *book) {
		b.operatorCall(history.Edit, 1400, 1)
	}), 0, ""},
}

// askAhead has all claims ask for n of their 10 jobs ahead.
func askAhead(b *book, n int) {
	for _, c := range b.Calls {
		if c.Verb == history.Claim {
			c.Ahead = n
		}
	}
}

// limbo writes a job that is claimed 3.5 s after it was enqueued, while a worker claims
// every 200 ms from since on.
func limbo(since int, meanwhile func(*book)) func(*book) {
	return func(b *book) {
		b.enqueue(1, 1)
		for at := since; at < 3500; at += 200 {
			b.claim("w", at, 1)
		}
		c := b.claim("w", 3500, 1, 1)
		b.finish("w", 3510, dibs.EndCompleted, 3500, 1)
		meanwhile(b)
		b.atEnd(dibs.Completed, 1, 1)
		c.Jobs[0].Group = b.Final[len(b.Final)-1].Group
	}
}

var numbering = []page{
	{"one attempt number is given twice", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", 120, 1, 1)
	}, 5, "given twice"},
	{"an attempt number is given again after a rollback", func(b *book) {
		b.enqueue(0, 1)
		b.inTx("tx", 20, history.Rollback, func() { b.claim("t", 10, 1, 1) })
		b.claim("w2", 120, 1, 1)
		b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		b.atEnd(dibs.Completed, 1, 1)
	}, 0, ""},
	{"an attempt number is skipped", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 2, 1)
	}, 5, "were given to nobody"},
	{"a claim without an answer explains a skipped attempt number", func(b *book) {
		b.enqueue(0, 1)
		removeAnswer(b.claim("w1", 10, 1, 1))
		b.claim("w2", 120, 2, 1)
		b.finish("w2", 130, dibs.EndCompleted, 120, 1)
		b.atEnd(dibs.Completed, 2, 1)
	}, 0, ""},
	{"attempt numbers that fall", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 2, 1)
		b.claim("w2", 120, 1, 1)
	}, 5, "only grow"},
	{"more attempts than allowed", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1).Jobs[0].MaxAttempts = 1
		b.claim("w2", 120, 2, 1).Jobs[0].MaxAttempts = 1
	}, 5, "were used up"},
	{"a release that is not excused", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndRelease, 10, 1)
		b.claim("w2", 30, 2, 1)
	}, 5, "1 to 1 were released"},
	{"a retry that is excused", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndRetry, 10, 1)
		b.claim("w2", 30, 2, 1).Jobs[0].Excused = 1
	}, 5, "0 to 0 were released"},
}

// extendedInCommit finishes a job in a transaction whose commit lasts from 30 to 60.
func extendedInCommit(extend int) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.inTx("tx", 30, history.Commit, func() { b.finish("w1", 20, dibs.EndCompleted, 10, 1) }).End = ms(60)
		b.extend("w1", extend, 100, 10, 1)
		b.atEnd(dibs.Completed, 1, 1)
		b.Effects = map[int64]int{1: 1}
	}
}
