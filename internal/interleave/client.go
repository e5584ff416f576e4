package interleave

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
)

// call is one call of an actor: what it asked, what was seen of it, and its answer.
type call struct {
	verb     string
	ids      []int64        // what cancel, requeue and edit name
	outcomes []dibs.Outcome // what finish names
	leases   []dibs.Lease   // what extend names

	begun     bool
	start     int              // how many states had been seen when it began
	asked     int              // and when its last claiming statement was sent
	at        time.Time        // the clock at its last statement
	disturbed bool             // somebody was inside of a transaction meanwhile
	did       map[int64]effect // what its commits changed

	err   error
	jobs  []*dibs.RawJob // claimed or resumed
	done  []int64        // ids that the answer says were changed
	lost  []int64
	count int // of jobs that a sweep took away
}

// Client is an actor's hand on its store. It stops before what it does where
// statements do not, and keeps the answers for the promises to be checked by.
type Client struct {
	w      *world
	number int
	now    *call
	done   []*call        // answered, not checked yet
	inTx   []*dibs.RawJob // claimed by an open transaction
	Jobs   []*dibs.RawJob // of the last claim that got any
	ctx    context.Context
}

// do makes one call.
func (c *Client) do(verb string, prepare func(*call), run func(*call) error) {
	k := &call{verb: verb, did: map[int64]effect{}}
	if prepare != nil {
		prepare(k)
	}
	c.now = k
	if c.w.bench.PerCall() && !c.stop(Step{Name: verb, Ends: true, Free: c.alone}) {
		return
	}
	k.err = run(k)
	var lost *dibs.FinishError
	if errors.As(k.err, &lost) {
		k.lost, k.err = lost.Lost, nil
	}
	c.done = append(c.done, k)
}

// alone reports whether a call can begin: where one is a step, nobody else's
// transaction may be open.
func (c *Client) alone() bool { return !c.w.bench.PerCall() || !c.w.s.disturbed(c.number) }

func (c *Client) stop(s Step) bool { return c.w.s.stop(c.number, s) }

func (c *Client) store() dibs.Database { return c.w.bench.Store(c.number) }

func (c *Client) name() string { return c.w.names[c.number] }

func (c *Client) request(n int) dibs.ClaimRequest {
	return dibs.ClaimRequest{Queue: Queue, Worker: c.name(), N: n}
}

// Claim claims up to n jobs.
func (c *Client) Claim(n int) {
	c.do("claim", nil, func(k *call) (err error) {
		k.jobs, err = c.store().Claim(c.ctx, c.request(n))
		k.done = idsOf(k.jobs)
		if len(k.jobs) > 0 {
			c.Jobs = k.jobs
		}
		return err
	})
}

// Finish writes outcomes.
func (c *Client) Finish(outcomes ...dibs.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	c.do("finish", func(k *call) { k.outcomes = outcomes }, func(k *call) error {
		err := c.store().Finish(c.ctx, outcomes)
		k.done = without(outcomes, err)
		return err
	})
}

// Complete completes what the last claim got.
func (c *Client) Complete() {
	var list []dibs.Outcome
	for _, j := range c.Jobs {
		list = append(list, j.Lease().Complete(nil))
	}
	c.Finish(list...)
}

// Extend makes leases end a minute from now.
func (c *Client) Extend(jobs ...*dibs.RawJob) {
	var leases []dibs.Lease
	for _, j := range jobs {
		leases = append(leases, j.Lease())
	}
	c.do("extend", func(k *call) { k.leases = leases }, func(k *call) error {
		e, err := c.store().Extend(c.ctx, leases, time.Minute)
		k.lost = e.Lost
		for _, l := range leases {
			if !contains(e.Lost, l.ID) {
				k.done = append(k.done, l.ID)
			}
		}
		return err
	})
}

// Resume takes over what a worker of that name holds.
func (c *Client) Resume(worker string) {
	c.do("resume", nil, func(k *call) (err error) {
		k.jobs, err = c.store().Resume(c.ctx, dibs.ClaimRequest{Queue: Queue, Worker: worker})
		k.done = idsOf(k.jobs)
		if len(k.jobs) > 0 {
			c.Jobs = k.jobs
		}
		return err
	})
}

// Sweep sweeps.
func (c *Client) Sweep() {
	c.do("sweep", nil, func(k *call) error {
		s, err := c.store().Sweep(c.ctx)
		k.count = s.Expired
		return err
	})
}

// Enqueue enqueues.
func (c *Client) Enqueue(jobs ...dibs.NewJob) {
	c.do("enqueue", nil, func(k *call) error {
		return k.enqueued(c.store().Enqueue(c.ctx, c.w.inQueue(jobs)))
	})
}

func (k *call) enqueued(list []dibs.Enqueued, err error) error {
	for _, e := range list {
		if e.Existing {
			k.ids = append(k.ids, e.ID)
		} else {
			k.done = append(k.done, e.ID)
		}
	}
	return err
}

// Cancel cancels.
func (c *Client) Cancel(ids ...int64) {
	c.do("cancel", func(k *call) { k.ids = ids }, func(k *call) error {
		ended, asked, err := c.store().Cancel(c.ctx, ids)
		k.done = append(ended, asked...)
		return err
	})
}

// Requeue puts final jobs back.
func (c *Client) Requeue(ids ...int64) {
	c.do("requeue", func(k *call) { k.ids = ids }, func(k *call) (err error) {
		k.done, err = c.store().Requeue(c.ctx, ids)
		return err
	})
}

// Edit gives jobs another priority.
func (c *Client) Edit(priority int, ids ...int64) {
	c.do("edit", func(k *call) { k.ids = ids }, func(k *call) (err error) {
		k.done, err = c.store().Edit(c.ctx, ids, dibs.Edit{Priority: &priority})
		return err
	})
}

// SetQueue changes settings.
func (c *Client) SetQueue(change dibs.QueueChange) {
	c.do("set queue", nil, func(k *call) error {
		_, err := c.store().SetQueue(c.ctx, Queue, change)
		return err
	})
}

// SetGroup gives a group another limit.
func (c *Client) SetGroup(group string, limit int) {
	c.do("set group", nil, func(k *call) error { return c.store().SetGroup(c.ctx, Queue, group, limit) })
}

// Pass lets time pass.
func (c *Client) Pass(d time.Duration) {
	c.now = &call{verb: "pass", did: map[int64]effect{}}
	if c.stop(Step{Name: d.String() + " pass", Ends: true, Free: c.alone}) {
		c.w.passed(c.w.bench.Pass(c.ctx, d))
	}
}

// errUndo rolls a caller's transaction back.
var errUndo = errors.New("rolled back by the program")

// Tx runs f in a transaction, and rolls back at its end if asked to.
func (c *Client) Tx(undo bool, f func(*TxClient)) {
	verb := "transaction"
	if undo {
		verb = "transaction undone"
	}
	k := &call{verb: verb, did: map[int64]effect{}}
	c.now = k
	perCall := c.w.bench.PerCall()
	if perCall && !c.stop(Step{Name: "begin", Free: c.alone}) {
		return
	}
	k.err = c.store().InTx(c.ctx, func(tx dibs.Tx) error {
		t := &TxClient{Client: c, tx: tx, call: k}
		f(t)
		switch {
		case perCall && !c.stop(Step{Name: "end of the transaction", Holds: true, Ends: true}):
			return errAbandoned
		case t.err != nil:
			return t.err
		case undo:
			return errUndo
		}
		return nil
	})
	c.inTx = nil
	var lost *dibs.FinishError
	if errors.As(k.err, &lost) { // told, and so rolled back
		k.lost, k.done, k.err = lost.Lost, nil, nil
	}
	if errors.Is(k.err, errUndo) {
		k.err, k.done = nil, nil
	}
	c.done = append(c.done, k)
}

// TxClient is an actor's hand inside of a transaction.
type TxClient struct {
	*Client
	tx   dibs.Tx
	call *call
	err  error
}

func (t *TxClient) may(name string) bool {
	if t.err == nil && t.w.bench.PerCall() && !t.stop(Step{Name: name, Holds: true}) {
		t.err = errAbandoned
	}
	return t.err == nil
}

// Claim is dibs.Tx.Claim.
func (t *TxClient) Claim(n int) (jobs []*dibs.RawJob) {
	if t.may("tx claim") {
		jobs, t.err = t.tx.Claim(t.ctx, t.request(n))
		t.inTx = append(t.inTx, jobs...)
		t.call.done = append(t.call.done, idsOf(jobs)...)
	}
	return jobs
}

// Finish is dibs.Tx.Finish.
func (t *TxClient) Finish(outcomes ...dibs.Outcome) {
	t.call.outcomes = append(t.call.outcomes, outcomes...)
	if t.may("tx finish") {
		t.err = t.tx.Finish(t.ctx, outcomes)
		for _, o := range outcomes {
			if !contains(t.call.done, o.ID) {
				t.call.done = append(t.call.done, o.ID)
			}
		}
	}
}

// Enqueue is dibs.Tx.Enqueue.
func (t *TxClient) Enqueue(jobs ...dibs.NewJob) {
	if t.may("tx enqueue") {
		var list []dibs.Enqueued
		list, t.err = t.tx.Enqueue(t.ctx, t.w.inQueue(jobs))
		t.err = t.call.enqueued(list, t.err)
	}
}
