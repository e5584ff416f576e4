package interleave

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// call is one call of an actor: its arguments, the effects of its commits, and its answer.
type call struct {
	verb     string
	ids      []int64        // argument of cancel, requeue and edit
	outcomes []dibs.Outcome // argument of finish
	leases   []dibs.Lease   // argument of extend

	begun      bool
	startState int              // index in world.states when the call began
	claimState int              // index in world.states when its last claiming statement was sent
	clock      time.Time        // the database's time at its last statement
	disturbed  bool             // another actor's transaction was open meanwhile
	effects    map[int64]effect // changes of its commits, by job

	err     error
	jobs    []*dibs.RawJob // claimed or resumed
	changed []int64        // ids that the answer reports as changed
	lost    []int64        // ids that the answer reports as refused
	expired int            // number of jobs that a sweep took away
}

// Client calls an actor's store. If the bench's statements do not stop, the client stops
// before each call. It keeps the answers, so that world can check them.
type Client struct {
	w           *world
	actor       int
	current     *call
	unchecked   []*call        // answered calls that world has yet to check
	claimedInTx []*dibs.RawJob // jobs that its open transaction has claimed
	Jobs        []*dibs.RawJob // jobs of the last claim that took any
	ctx         context.Context
}

// do makes one call.
func (c *Client) do(verb string, prepare func(*call), run func(*call) error) {
	k := &call{verb: verb, effects: map[int64]effect{}}
	if prepare != nil {
		prepare(k)
	}
	c.current = k
	if c.w.bench.PerCall() && !c.stop(Step{Name: verb, Ends: true, Free: c.canBegin}) {
		return
	}
	k.err = run(k)
	var lost *dibs.FinishError
	if errors.As(k.err, &lost) {
		k.lost, k.err = lost.Lost, nil
	}
	c.unchecked = append(c.unchecked, k)
}

// canBegin reports whether a call can begin: if a whole call is one step, no other
// actor may have an open transaction.
func (c *Client) canBegin() bool { return !c.w.bench.PerCall() || !c.w.scheduler.disturbed(c.actor) }

func (c *Client) stop(s Step) bool { return c.w.scheduler.stop(c.actor, s) }

func (c *Client) store() admin.Database { return c.w.bench.Store(c.actor) }

func (c *Client) name() string { return c.w.names[c.actor] }

func (c *Client) request(n int) dibs.ClaimRequest {
	return dibs.ClaimRequest{Queue: Queue, Worker: c.name(), N: n}
}

// Claim claims up to n jobs.
func (c *Client) Claim(n int) {
	c.do("claim", nil, func(k *call) (err error) {
		k.jobs, err = c.store().Claim(c.ctx, c.request(n))
		k.changed = idsOf(k.jobs)
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
		k.changed = without(outcomes, err)
		return err
	})
}

// Complete completes the jobs of the last claim.
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
				k.changed = append(k.changed, l.ID)
			}
		}
		return err
	})
}

// Resume takes over the jobs that a worker of that name holds.
func (c *Client) Resume(worker string) {
	c.do("resume", nil, func(k *call) (err error) {
		k.jobs, err = c.store().Resume(c.ctx, dibs.ClaimRequest{Queue: Queue, Worker: worker})
		k.changed = idsOf(k.jobs)
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
		k.expired = s.Expired
		return err
	})
}

// Settle settles, as the actor's process does by itself after its calls; a process that dies does not.
func (c *Client) Settle() {
	if c.w.bench.Settles() {
		c.do("settle", nil, func(*call) error { return c.w.bench.Settle(c.ctx, c.actor) })
	}
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
			k.changed = append(k.changed, e.ID)
		}
	}
	return err
}

// Cancel cancels.
func (c *Client) Cancel(ids ...int64) {
	c.do("cancel", func(k *call) { k.ids = ids }, func(k *call) error {
		ended, asked, err := c.store().Cancel(c.ctx, ids)
		k.changed = append(ended, asked...)
		return err
	})
}

// Requeue puts final jobs back.
func (c *Client) Requeue(ids ...int64) {
	c.do("requeue", func(k *call) { k.ids = ids }, func(k *call) (err error) {
		k.changed, err = c.store().Requeue(c.ctx, ids, time.Time{})
		return err
	})
}

// Edit gives jobs another priority.
func (c *Client) Edit(priority int, ids ...int64) {
	c.do("edit", func(k *call) { k.ids = ids }, func(k *call) (err error) {
		k.changed, err = c.store().Edit(c.ctx, ids, admin.Edit{Priority: &priority})
		return err
	})
}

// SetQueue changes settings.
func (c *Client) SetQueue(change dibs.QueueChange) {
	c.do("set queue", nil, func(k *call) error {
		_, err := c.store().ChangeQueue(c.ctx, Queue, change.Apply)
		return err
	})
}

// SetGroup gives a group another limit.
func (c *Client) SetGroup(group string, limit int) {
	c.do("set group", nil, func(k *call) error {
		return c.store().ChangeGroup(c.ctx, Queue, group, dibs.GroupChange{Limit: &limit}.Apply)
	})
}

// Pass lets time pass.
func (c *Client) Pass(d time.Duration) {
	c.current = &call{verb: "pass", effects: map[int64]effect{}}
	if c.stop(Step{Name: d.String() + " pass", Ends: true, Free: c.canBegin}) {
		c.w.passed(c.w.bench.Pass(c.ctx, d))
	}
}

// errUndo rolls a caller's transaction back.
var errUndo = errors.New("rolled back by the program")

// Tx runs f in a transaction; with undo it rolls the transaction back at its end.
func (c *Client) Tx(undo bool, f func(*TxClient)) {
	verb := "transaction"
	if undo {
		verb = "transaction undone"
	}
	k := &call{verb: verb, effects: map[int64]effect{}}
	c.current = k
	perCall := c.w.bench.PerCall()
	if perCall && !c.stop(Step{Name: "begin", Free: c.canBegin}) {
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
	c.claimedInTx = nil
	var lost *dibs.FinishError
	if errors.As(k.err, &lost) { // a refused outcome has rolled the transaction back
		k.lost, k.changed, k.err = lost.Lost, nil, nil
	}
	if errors.Is(k.err, errUndo) {
		k.err, k.changed = nil, nil
	}
	c.unchecked = append(c.unchecked, k)
}

// TxClient makes an actor's calls inside its transaction.
type TxClient struct {
	*Client
	tx   dibs.Tx
	call *call
	err  error
}

func (t *TxClient) stopBefore(name string) bool {
	if t.err == nil && t.w.bench.PerCall() && !t.stop(Step{Name: name, Holds: true}) {
		t.err = errAbandoned
	}
	return t.err == nil
}

// Claim is dibs.Tx.Claim.
func (t *TxClient) Claim(n int) (jobs []*dibs.RawJob) {
	if t.stopBefore("tx claim") {
		jobs, t.err = t.tx.Claim(t.ctx, t.request(n))
		t.claimedInTx = append(t.claimedInTx, jobs...)
		t.call.changed = append(t.call.changed, idsOf(jobs)...)
	}
	return jobs
}

// Finish is dibs.Tx.Finish.
func (t *TxClient) Finish(outcomes ...dibs.Outcome) {
	t.call.outcomes = append(t.call.outcomes, outcomes...)
	if t.stopBefore("tx finish") {
		t.err = t.tx.Finish(t.ctx, outcomes)
		for _, o := range outcomes {
			if !contains(t.call.changed, o.ID) {
				t.call.changed = append(t.call.changed, o.ID)
			}
		}
	}
}

// Enqueue is dibs.Tx.Enqueue.
func (t *TxClient) Enqueue(jobs ...dibs.NewJob) {
	if t.stopBefore("tx enqueue") {
		var list []dibs.Enqueued
		list, t.err = t.tx.Enqueue(t.ctx, t.w.inQueue(jobs))
		t.err = t.call.enqueued(list, t.err)
	}
}
