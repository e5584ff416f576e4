package history_test

import (
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// chain writes the jobs 1 and 2, of which 2 comes after 1, and its needs.
func chain(b *book, need dibs.Need) *history.Call {
	c := b.enqueue(0, 1, 2)
	c.New[0].Ref, c.New[1].After = "first", []dibs.Dep{{Ref: "first", On: need}}
	return c
}

// first writes the only attempt of job 1, from 10 to 20.
func (b *book) first(ending dibs.Ending) *history.Call {
	b.claim("w1", 10, 1, 1)
	f := b.finish("w1", 20, ending, 10, 1)
	if ending == dibs.EndDead {
		b.atEnd(dibs.Dead, 1, 1)
	} else {
		b.atEnd(dibs.Completed, 1, 1)
	}
	return f
}

// second writes the only attempt of job 2, from the time at on.
func (b *book) second(at int) {
	b.claim("w2", at, 1, 2)
	b.finish("w2", at+10, dibs.EndCompleted, at, 2)
	b.atEnd(dibs.Completed, 1, 2)
}

// cancelled has a job be cancelled at the end without an attempt, because of another.
func (b *book) cancelled(id, cause int64) {
	b.atEnd(dibs.Cancelled, 0, id)
	f := b.Final[len(b.Final)-1]
	f.Cause, f.FinishedAt = cause, ms(30)
}

// ends writes a chain whose first job ends so, and then calls f.
func ends(need dibs.Need, ending dibs.Ending, f func(*book)) func(*book) {
	return func(b *book) {
		chain(b, need)
		b.first(ending)
		f(b)
	}
}

// cascade writes a chain of three jobs, of which the first dies.
func cascade(third int64) func(*book) {
	return ends("", dibs.EndDead, func(b *book) {
		b.cancelled(2, 1)
		c := b.enqueue(5, 3)
		c.New[0].After = []dibs.Dep{{ID: 2}}
		b.cancelled(3, third)
	})
}

// requeued writes a chain whose first job dies, is requeued at 40 and completed at 60.
func requeued(f func(*book)) func(*book) {
	return func(b *book) {
		chain(b, "")
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndDead, 10, 1)
		b.operatorCall(history.Requeue, 40, 1)
		b.runAt[1] = 40
		b.claim("w1", 50, 2, 1).Jobs[0].Excused = 1
		b.finish("w1", 60, dibs.EndCompleted, 50, 1)
		b.atEnd(dibs.Completed, 2, 1)
		b.Final[0].Excused = 1
		f(b)
	}
}

// claimsMeanwhile has a worker claim again and again, and find nothing.
func claimsMeanwhile(b *book, until int) {
	for at := 25; at < until; at += 500 {
		b.claim("w3", at, 1)
	}
}

var flowing = []page{
	{"a job starts after another", ends("", dibs.EndCompleted, func(b *book) { b.second(30) }), 0, ""},
	{"a job starts while another, that it comes after, runs", ends("", dibs.EndCompleted, func(b *book) { b.second(15) }), 11, "that could not be"},
	{"a job starts although another is dead", ends("", dibs.EndDead, func(b *book) { b.second(30) }), 11, "that could not be"},
	{"a job is not cancelled, although another is dead", ends("", dibs.EndDead, func(b *book) { b.second(30) }), 11, "without a cause"},
	{"a callback starts after a death", ends(dibs.NeedEnded, dibs.EndDead, func(b *book) { b.second(30) }), 0, ""},
	{"a callback is cancelled", ends(dibs.NeedEnded, dibs.EndDead, func(b *book) { b.cancelled(2, 1) }), 11, "did not keep it from starting"},
	{"a compensation starts after a death", ends(dibs.NeedFailed, dibs.EndDead, func(b *book) { b.second(30) }), 0, ""},
	{"a compensation starts after a completion", ends(dibs.NeedFailed, dibs.EndCompleted, func(b *book) { b.second(30) }), 11, "that could not be"},
	{"a compensation is cancelled after a completion", ends(dibs.NeedFailed, dibs.EndCompleted, func(b *book) { b.cancelled(2, 1) }), 0, ""},
	{"a job is cancelled because of another", ends("", dibs.EndDead, func(b *book) { b.cancelled(2, 1) }), 0, ""},
	{"a job is cancelled although the other is completed", ends("", dibs.EndCompleted, func(b *book) { b.cancelled(2, 1) }), 11, "did not keep it from starting"},
	{"a cause that is none", ends("", dibs.EndDead, func(b *book) { b.cancelled(2, 7) }), 11, "did not keep it from starting"},
	{"a cause goes on to the next", cascade(1), 0, ""},
	{"the cause is the job in between", cascade(2), 11, "did not keep it from starting"},
	{"somebody cancels a job that waits", func(b *book) {
		chain(b, "")
		b.operatorCall(history.Cancel, 15, 2)
		b.first(dibs.EndDead)
		b.atEnd(dibs.Cancelled, 0, 2)
	}, 0, ""},
	{"a job is blocked at the end", ends("", dibs.EndCompleted, func(b *book) { b.atEnd(dibs.Blocked, 0, 2) }), 11, "blocked at the end"},
	{"a job that comes after one of a later call", func(b *book) {
		b.enqueue(0, 1)
		b.enqueue(5, 2).New[0].After = []dibs.Dep{{ID: 1}}
		b.first(dibs.EndCompleted)
		b.second(15)
	}, 11, "that could not be"},
	{"a finish without an answer may have ended the first", func(b *book) {
		chain(b, "")
		removeAnswer(b.first(dibs.EndCompleted))
		b.second(30)
	}, 0, ""},
	{"a job may not start before a finish that has no answer", func(b *book) {
		chain(b, "")
		removeAnswer(b.first(dibs.EndCompleted))
		b.second(15)
	}, 11, "that could not be"},
	{"a requeue brings back what follows", requeued(func(b *book) { b.second(70) }), 0, ""},
	{"a requeue leaves behind what follows", requeued(func(b *book) { b.cancelled(2, 1) }), 11, "did not keep it from starting"},
	{"what was brought back starts too early", requeued(func(b *book) { b.second(55) }), 11, "that could not be"},
	{"a job is not released", ends("", dibs.EndCompleted, func(b *book) {
		claimsMeanwhile(b, 6000)
		b.second(6100)
	}), 11, "in limbo"},
	{"a job is released in time", ends("", dibs.EndCompleted, func(b *book) {
		claimsMeanwhile(b, 3000)
		b.second(3100)
	}), 0, ""},
	{"a job is cancelled late", ends("", dibs.EndDead, func(b *book) {
		claimsMeanwhile(b, 6000)
		b.cancelled(2, 1)
		b.Final[1].FinishedAt = ms(6100)
	}), 11, "in limbo"},
	{"a job is blocked for long", ends("", dibs.EndCompleted, func(b *book) {
		for _, c := range b.Calls {
			if len(c.Jobs)+len(c.Outcomes) > 0 {
				c.Begin, c.End = c.Begin.Add(ms(6000).Sub(epoch)), c.End.Add(ms(6000).Sub(epoch))
			}
			for i := range c.Jobs {
				c.Jobs[i].ClaimedAt, c.Jobs[i].LeaseUntil = ms(6010), ms(6110)
			}
		}
		for at := 0; at < 6000; at += 500 {
			b.claim("w3", at, 1).Kinds = true
		}
		b.second(6100)
	}), 0, ""},
}

// adds has the first job of a chain add job 3 when it is completed, and then calls f with its finish.
func adds(f func(b *book, finish *history.Call)) func(*book) {
	return func(b *book) {
		chain(b, "")
		finish := b.first(dibs.EndCompleted)
		finish.New = []history.New{{Key: key(3), Sum: history.Sum(payload(3)), Queue: "q", Priority: 255, By: 1}}
		b.born[3], b.runAt[3] = finish, 21
		f(b, finish)
	}
}

// third writes the only attempt of job 3, from the time at on.
func (b *book) third(at int) {
	b.claim("w3", at, 1, 3)
	b.finish("w3", at+10, dibs.EndCompleted, at, 3)
	b.atEnd(dibs.Completed, 1, 3)
}

var adding = []page{
	{"a job adds another", adds(func(b *book, _ *history.Call) { b.third(30); b.second(50) }), 0, ""},
	{"an added job does not exist", adds(func(b *book, _ *history.Call) { b.second(50) }), 13, "does not exist"},
	{"a refused finish adds a job", adds(func(b *book, f *history.Call) {
		setRefused(f, 1)
		b.third(30)
	}), 13, "was refused"},
	{"a refused finish adds nothing", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		f := setRefused(b.finish("w2", 30, dibs.EndCompleted, 5, 1), 1)
		f.New = []history.New{{Key: key(3), Queue: "q", Priority: 255, By: 1}}
		b.atEnd(dibs.Completed, 1, 1)
	}, 0, ""},
	{"a follower does not wait for an added job", adds(func(b *book, _ *history.Call) { b.third(50); b.second(30) }), 11, "that could not be"},
	{"a follower of a later call need not wait for an added job", func(b *book) {
		adds(func(b *book, _ *history.Call) { b.third(50); b.second(70) })(b)
		b.enqueue(5, 4).New[0].After = []dibs.Dep{{ID: 1}}
		b.claim("w4", 30, 1, 4)
		b.finish("w4", 40, dibs.EndCompleted, 30, 4)
		b.atEnd(dibs.Completed, 1, 4)
	}, 0, ""},
	{"a finish without an answer has completed its job and added none", adds(func(b *book, f *history.Call) {
		removeAnswer(f)
		b.second(50)
	}), 13, "as a whole or not at all"},
	{"a finish without an answer has added a job and not completed its own", adds(func(b *book, f *history.Call) {
		removeAnswer(f)
		b.claim("w1", 200, 2, 1)
		b.finish("w1", 210, dibs.EndCompleted, 200, 1)
		b.Final[0].Attempt = 2
		b.third(30)
		b.second(250)
	}), 13, "as a whole or not at all"},
	{"a finish without an answer is sent again and refused", adds(func(b *book, f *history.Call) {
		removeAnswer(f)
		again := setRefused(b.finish("w1", 60, dibs.EndCompleted, 10, 1), 1)
		again.New = f.New
		b.third(30)
		b.second(50)
	}), 0, ""},
	{"a finish without an answer has done both", adds(func(b *book, f *history.Call) {
		removeAnswer(f)
		b.third(30)
		b.second(50)
	}), 0, ""},
}

// step adds a call about the steps of job 1, of its attempt from the time claim on.
func (b *book) step(client string, verb history.Verb, at, claim int, steps ...history.Step) *history.Call {
	c := b.call(client, verb, at)
	c.Leases, c.Steps = []dibs.Lease{{ID: 1, Token: token(claim)}}, steps
	return c
}

var charged = history.Step{Name: "charge", Sum: 1}

// twice writes a job that is claimed at 10, writes a step at 12, fails at 20, is claimed again at 30, asks for its steps
// at 32 and is completed at 40. It calls f with the two calls about steps.
func twice(f func(b *book, put, read *history.Call)) func(*book) {
	return func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		put := b.step("w1", history.PutStep, 12, 10, charged)
		b.finish("w1", 20, dibs.EndRetry, 10, 1)
		b.claim("w2", 30, 2, 1)
		read := b.step("w2", history.Steps, 32, 30, charged)
		b.finish("w2", 40, dibs.EndCompleted, 30, 1)
		b.atEnd(dibs.Completed, 2, 1)
		f(b, put, read)
	}
}

var stepping = []page{
	{"a step is seen by the next attempt", twice(func(*book, *history.Call, *history.Call) {}), 0, ""},
	{"a step is not seen by the next attempt", twice(func(_ *book, _, r *history.Call) { r.Steps = nil }), 12, "was not among those"},
	{"a step without an answer is not seen", twice(func(_ *book, p, r *history.Call) { removeAnswer(p); r.Steps = nil }), 0, ""},
	{"a step without an answer is seen", twice(func(_ *book, p, _ *history.Call) { removeAnswer(p) }), 0, ""},
	{"a step has another value", twice(func(_ *book, _, r *history.Call) { r.Steps = []history.Step{{Name: "charge", Sum: 2}} }), 12, "wrote it so"},
	{"a step was rolled back, and is seen", func(b *book) {
		b.inTx("tx", 14, history.Rollback, func() {})
		twice(func(_ *book, p, _ *history.Call) { p.Tx = "tx" })(b)
	}, 12, "wrote it so"},
	{"a step was rolled back, and is not seen", func(b *book) {
		b.inTx("tx", 14, history.Rollback, func() {})
		twice(func(_ *book, p, r *history.Call) { p.Tx, r.Steps = "tx", nil })(b)
	}, 0, ""},
	{"a transaction sees its own step", func(b *book) {
		b.inTx("tx", 19, history.Rollback, func() {})
		twice(func(b *book, p, r *history.Call) {
			p.Tx, r.Steps = "tx", nil
			b.step("w1", history.Steps, 13, 10, charged).Tx = "tx"
		})(b)
	}, 0, ""},
	{"a step is written under a lost lease", twice(func(b *book, _, _ *history.Call) {
		b.step("w1", history.PutStep, 35, 10, history.Step{Name: "ship", Sum: 1})
	}), 12, "had been given to"},
	{"a step is written after its lease", func(b *book) {
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.step("w1", history.PutStep, 150, 10, charged)
		b.claim("w2", 200, 2, 1)
		b.finish("w2", 210, dibs.EndCompleted, 200, 1)
		b.atEnd(dibs.Completed, 2, 1)
	}, 12, "after its lease had ended"},
	{"a step is refused under a lost lease", twice(func(b *book, _, _ *history.Call) {
		setRefused(b.step("w1", history.PutStep, 35, 10, charged), 1)
	}), 0, ""},
	{"a step is refused wrongly", twice(func(b *book, _, _ *history.Call) {
		setRefused(b.step("w2", history.PutStep, 35, 30, history.Step{Name: "ship", Sum: 1}), 1)
	}), 12, "was refused wrongly"},
	{"a step is written twice", twice(func(b *book, _, _ *history.Call) {
		b.step("w2", history.PutStep, 35, 30, history.Step{Name: "charge", Sum: 2})
	}), 12, "with two values"},
	{"a step is written again, the same", twice(func(b *book, _, _ *history.Call) { b.step("w2", history.PutStep, 35, 30, charged) }), 0, ""},
	{"the steps are in another order", twice(func(b *book, _, r *history.Call) {
		more := history.Step{Name: "ship", Sum: 1}
		b.step("w1", history.PutStep, 14, 10, more)
		r.Steps = slices.Concat([]history.Step{more}, r.Steps)
	}), 0, ""},
}
