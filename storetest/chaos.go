package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

var chaosCases = []oneCase{
	{"whatever happens, every promise is kept", chaosAll},
}

// chaos is what happened in a random history of enqueuers, claimers, crashes,
// sweeps and operators on several stores at once. Invariants, as things happen:
//   - a token belongs to one claim, an attempt of a job to one token (register);
//   - of no job two attempts run at once, of no group more than its limit;
//   - an outcome is accepted at most once per attempt, and never after a final one;
//
// and at the end:
//   - every job is final, in the state that its last accepted outcome says;
//   - no attempt was counted that nobody was given;
//   - there are as many effects as jobs completed in a caller's transaction;
//   - the counts equal reality, and the database is consistent.
type chaos struct {
	*register
	jobs     []int64
	running  map[int64]bool
	groups   map[string]int
	accepted map[int64]dibs.Outcome // the last accepted outcome of each job
	at       map[int64]int          // and its attempt
	effects  int
	enqueued int // enqueuers that are done
}

const chaosEnqueuers, chaosGroupLimit = 2, 2

func chaosAll(t *test) {
	effects := t.effects()
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(chaosGroupLimit), Concurrency: new(0)})
	c := &chaos{
		register: newRegister(), running: map[int64]bool{}, groups: map[string]int{},
		accepted: map[int64]dibs.Outcome{}, at: map[int64]int{},
	}
	t.crew(chaosEnqueuers+7, func(ctx context.Context, db dibs.Database, r *rand.Rand, i int) error {
		switch {
		case i < chaosEnqueuers:
			return c.enqueuer(ctx, db, r)
		case i == chaosEnqueuers:
			return c.operator(ctx, db, r)
		}
		return c.worker(t, ctx, db, r, i)
	})
	for _, id := range c.jobs {
		c.ended(t, t.get(id))
	}
	equal(t, "effects", effects(), c.effects)
	t.counted()
}

func (c *chaos) enqueuer(ctx context.Context, db dibs.Database, r *rand.Rand) error {
	for range raceSize(14) {
		var batch []dibs.NewJob
		for range 1 + r.IntN(15) {
			j := dibs.NewJob{Kind: "k", Priority: new(r.IntN(3)), MaxAttempts: 2 + r.IntN(4)}
			if r.IntN(2) == 0 {
				j.Group = fmt.Sprintf("g%d", r.IntN(6))
			}
			if r.IntN(6) == 0 {
				j.Delay = time.Duration(r.IntN(100)) * time.Millisecond
			}
			batch = append(batch, j)
		}
		done, err := db.Enqueue(ctx, batch)
		if err != nil {
			return err
		}
		c.mu.Lock()
		for _, e := range done {
			c.jobs = append(c.jobs, e.ID)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.enqueued++
	c.mu.Unlock()
	return nil
}

// left reports whether there is still something to do.
func (c *chaos) left(ctx context.Context, db dibs.Database) (bool, error) {
	c.mu.Lock()
	enqueued := c.enqueued
	c.mu.Unlock()
	p, err := db.List(ctx, dibs.Filter{Queue: dibs.DefaultQueue, Limit: 1})
	return enqueued < chaosEnqueuers || len(p.Jobs) > 0, err
}

// operator sweeps, cancels, edits and reads, as fast as it can.
func (c *chaos) operator(ctx context.Context, db dibs.Database, r *rand.Rand) error {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if left, err := c.left(ctx, db); err != nil || !left {
			return err
		}
		var some []int64
		c.mu.Lock()
		if n := len(c.jobs); n > 0 {
			some = []int64{c.jobs[r.IntN(n)]}
		}
		c.mu.Unlock()
		var err error
		switch r.IntN(12) {
		case 0:
			_, _, err = db.Cancel(ctx, some)
		case 1:
			_, err = db.Edit(ctx, some, dibs.Edit{Priority: new(r.IntN(3))})
		case 2:
			_, err = db.Stats(ctx)
		default:
			_, err = db.Sweep(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *chaos) worker(t *test, ctx context.Context, db dibs.Database, r *rand.Rand, i int) error {
	for {
		jobs, err := db.Claim(ctx, dibs.ClaimRequest{N: 1 + r.IntN(6), Worker: fmt.Sprintf("w%d", i), Lease: time.Hour})
		if err != nil {
			return err
		}
		if len(jobs) > 0 {
			err = errors.Join(c.claimed(jobs), c.start(jobs))
		}
		for _, j := range jobs {
			if err == nil {
				err = c.end(t, ctx, db, r, j)
			}
		}
		if err != nil {
			return err
		}
		if left, err := c.left(ctx, db); err != nil || !left {
			return err
		}
	}
}

// start counts jobs as running: after the claim has returned.
func (c *chaos) start(jobs []*dibs.RawJob) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range jobs {
		if c.running[j.ID] {
			return fmt.Errorf("job %d runs twice", j.ID)
		}
		c.running[j.ID] = true
		if j.Group == "" {
			continue
		}
		if c.groups[j.Group]++; c.groups[j.Group] > chaosGroupLimit {
			return fmt.Errorf("%d jobs of group %s run", c.groups[j.Group], j.Group)
		}
	}
	return nil
}

// end ends one attempt in a random way. The job counts as running no more before
// the database hears of it.
func (c *chaos) end(t *test, ctx context.Context, db dibs.Database, r *rand.Rand, j *dibs.RawJob) error {
	c.mu.Lock()
	c.running[j.ID] = false
	if j.Group != "" {
		c.groups[j.Group]--
	}
	c.mu.Unlock()
	l := j.Lease()
	switch r.IntN(10) {
	case 0: // crashes
		return c.leave(ctx, db, l)
	case 1: // hangs until somebody else may have the job, and then goes on
		if err := c.leave(ctx, db, l); err != nil {
			return err
		}
		select {
		case <-time.After(dibs.MinLease * time.Duration(1+r.IntN(2))):
		case <-ctx.Done():
			return ctx.Err()
		}
	case 2, 3:
		return c.endInTx(t, ctx, j)
	}
	o := endings(l)[[]int{0, 0, 0, 0, 1, 2, 2, 3, 4, 5, 6}[r.IntN(11)]]
	if o.Delay == nil && o.Ending == dibs.EndRetry || o.Ending == dibs.EndSnooze {
		o.Delay = new(time.Duration(r.IntN(30)) * time.Millisecond)
	}
	err := db.Finish(ctx, []dibs.Outcome{o})
	if errors.Is(err, dibs.ErrLeaseLost) {
		return nil
	}
	return errors.Join(err, c.accept(j, o))
}

// leave lets a lease end soon.
func (c *chaos) leave(ctx context.Context, db dibs.Database, l dibs.Lease) error {
	for {
		// Somebody else's finish, which will be refused, can look like the job's for a moment,
		// and another transaction can hold its row for longer than so short a lease waits.
		e, err := db.Extend(ctx, []dibs.Lease{l}, dibs.MinLease)
		if !errors.Is(err, dibs.ErrUnavailable) && (err != nil || len(e.Finishing) == 0) {
			return err
		}
	}
}

// endInTx completes a job in the caller's own transaction, with an effect there.
func (c *chaos) endInTx(t *test, ctx context.Context, j *dibs.RawJob) error {
	tx, err := t.begin(ctx)
	if err != nil {
		return err
	}
	o := j.Lease().Complete(nil)
	err = tx.Exec(ctx, effect(j.ID))
	if err == nil {
		err = tx.Finish(ctx, []dibs.Outcome{o})
	}
	if err != nil {
		if errors.Is(err, dibs.ErrLeaseLost) {
			return tx.Rollback()
		}
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	c.mu.Lock()
	c.effects++
	c.mu.Unlock()
	return c.accept(j, o)
}

func (c *chaos) accept(j *dibs.RawJob, o dibs.Outcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.accepted[j.ID]; ok {
		earlier, later := last, o
		if c.at[j.ID] > j.Attempt { // what was accepted earlier is only heard of later
			earlier, later = o, last
		}
		if c.at[j.ID] == j.Attempt || final(earlier) {
			return fmt.Errorf("job %d: outcome %s was accepted after %s (attempts %d and %d)", j.ID, later.Ending, earlier.Ending, c.at[j.ID], j.Attempt)
		}
		if c.at[j.ID] > j.Attempt {
			return nil
		}
	}
	c.accepted[j.ID], c.at[j.ID] = o, j.Attempt
	return nil
}

func final(o dibs.Outcome) bool {
	return o.Ending == dibs.EndCompleted || o.Ending == dibs.EndDead || o.Ending == dibs.EndCancelled
}

// ended expects that what became of a job agrees with what was accepted.
func (c *chaos) ended(t *test, j *dibs.RawJob) {
	t.Helper()
	equal(t, "attempts given and counted", c.attempts[j.ID], j.Attempt)
	o := c.accepted[j.ID]
	said := map[dibs.Ending]dibs.State{dibs.EndCompleted: dibs.Completed, dibs.EndDead: dibs.Dead, dibs.EndCancelled: dibs.Cancelled}
	if want, final := said[o.Ending]; final {
		equal(t, fmt.Sprintf("state of job %d after %s", j.ID, o.Ending), j.State, want)
		equal(t, "attempt that ended it", c.at[j.ID], j.Attempt)
		return
	}
	// Nobody ended it: the attempts ran out, or an operator cancelled it.
	if !slices.Contains([]dibs.State{dibs.Dead, dibs.Cancelled}, j.State) {
		t.Fatalf("job %d is %s although nobody was told so", j.ID, j.State)
	}
	if j.State == dibs.Dead && j.Attempt-j.Excused < j.MaxAttempts {
		t.Fatalf("job %d is dead after %d of %d attempts", j.ID, j.Attempt-j.Excused, j.MaxAttempts)
	}
}
