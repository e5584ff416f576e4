package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
)

// Answer is what a call came back with.
type Answer string

const (
	None    Answer = ""        // nothing yet: it may have happened
	Done    Answer = "done"    // it happened
	Nothing Answer = "nothing" // it was refused, or its transaction rolled back
)

// Note is what is known of one call.
type Note struct {
	Client string
	Call   int // of this client, from 1
	Answer Answer

	Batch string   `json:",omitempty"` // the jobs that it enqueues, which name it
	IDs   []int64  `json:",omitempty"` // of these, from the answer
	Asked int      `json:",omitempty"` // for how many jobs a claim or resume asked
	Given []Given  `json:",omitempty"` // what it was given
	Ends  []Ending `json:",omitempty"` // the outcomes that it writes
}

// Given is a job as a claim gave it.
type Given struct {
	dibs.Lease
	Attempt, Excused, MaxAttempts int
}

// Ending is an outcome, and the attempt that it ends.
type Ending struct {
	dibs.Outcome
	Attempt int
}

// payload says which batch a job is of, and how many are.
type payload struct {
	Batch string
	Of    int
}

// Client is one user of a store, and a worker of its own name.
type Client struct {
	Name string // unique among those that run at once
	Run  string // unique among the runs of clients on one database
	DB   dibs.Database
	Rand *rand.Rand
	Note func(Note) // returns when the note is safe from the crash

	calls int
	held  []Given
	stale *dibs.Lease // of an attempt that has ended
}

const (
	lease    = time.Hour // longer than any test
	most     = 12        // jobs of one call
	groups   = 5
	maxDelay = 20 // milliseconds of a retry or snooze
)

// Loop makes calls until one fails, and returns why. What a killed client of the
// same name held it takes back at first.
func (c *Client) Loop(ctx context.Context) error {
	err := c.take(dibs.MaxBatch, func() ([]*dibs.RawJob, error) {
		return c.DB.Resume(ctx, dibs.ClaimRequest{Worker: c.Name, Lease: lease})
	})
	for err == nil {
		err = c.step(ctx)
	}
	return fmt.Errorf("client %s, call %d: %w", c.Name, c.calls, err)
}

func (c *Client) step(ctx context.Context) error {
	if len(c.held) == 0 {
		n := 1 + c.Rand.IntN(most)
		err := c.take(n, func() ([]*dibs.RawJob, error) {
			return c.DB.Claim(ctx, dibs.ClaimRequest{Worker: c.Name, N: n, Lease: lease})
		})
		if err != nil || len(c.held) > 0 {
			return err
		}
		return c.enqueue(ctx)
	}
	switch c.Rand.IntN(6) {
	case 0:
		return c.enqueue(ctx)
	case 1, 2:
		return c.transaction(ctx)
	default:
		return c.finish(ctx)
	}
}

// call notes that a call begins, makes it, and notes its answer, if it is one.
func (c *Client) call(n Note, f func(*Note) error) error {
	n.Client, n.Call = c.Name+"/"+c.Run, c.calls
	c.Note(n)
	err := f(&n)
	switch {
	case err == nil:
		n.Answer = Done
	case errors.Is(err, errChangedMind), errors.Is(err, dibs.ErrInvalid):
		n.Answer = Nothing
	default:
		return err
	}
	c.Note(n)
	return nil
}

func (c *Client) take(n int, f func() ([]*dibs.RawJob, error)) error {
	c.calls++
	return c.call(Note{Asked: n}, func(note *Note) error {
		jobs, err := f()
		for _, j := range jobs {
			note.Given = append(note.Given, Given{j.Lease(), j.Attempt, j.Excused, j.MaxAttempts})
		}
		c.held = append(c.held, note.Given...)
		return err
	})
}

// enqueue enqueues a batch; one in eight has a bad job at its end.
func (c *Client) enqueue(ctx context.Context) error {
	batch, jobs := c.batch()
	if c.Rand.IntN(8) == 0 {
		jobs[len(jobs)-1].MaxAttempts = -1
	}
	return c.call(Note{Batch: batch}, func(n *Note) error {
		done, err := c.DB.Enqueue(ctx, jobs)
		n.IDs = ids(done)
		return err
	})
}

func (c *Client) batch() (string, []dibs.NewJob) {
	c.calls++
	name := fmt.Sprintf("%s/%s/%d", c.Name, c.Run, c.calls)
	jobs := make([]dibs.NewJob, 1+c.Rand.IntN(most))
	for i := range jobs {
		jobs[i] = dibs.NewJob{Kind: "k", Payload: payload{name, len(jobs)}, MaxAttempts: 2 + c.Rand.IntN(9)}
		switch c.Rand.IntN(4) {
		case 0:
			jobs[i].Group = strconv.Itoa(c.Rand.IntN(groups))
		case 1:
			jobs[i].UniqueKey = fmt.Sprintf("%s/%d", name, i)
		}
	}
	return name, jobs
}

func ids(done []dibs.Enqueued) []int64 {
	all := make([]int64, len(done))
	for i, e := range done {
		all[i] = e.ID
	}
	return all
}

// finish ends some of the attempts that the client holds; one call in five also
// names a lease that has ended, which has to be refused.
func (c *Client) finish(ctx context.Context) error {
	c.calls++
	ends := c.ends()
	outcomes := c.outcomes(ends)
	if l := c.stale; l != nil && c.Rand.IntN(5) == 0 && !c.holds(l.ID) {
		outcomes = append(outcomes, l.Complete(json.RawMessage(`"stale"`)))
		c.stale = nil
	}
	return c.call(Note{Ends: ends}, func(*Note) error {
		err := c.DB.Finish(ctx, outcomes)
		if len(outcomes) == len(ends) {
			return c.ended(ends, err)
		}
		var lost *dibs.FinishError
		switch last := outcomes[len(outcomes)-1].ID; {
		case err == nil:
			return fmt.Errorf("an outcome of job %d under an ended lease was accepted", last)
		case errors.As(err, &lost) && len(lost.Lost) == 1 && lost.Lost[0] == last:
			return c.ended(ends, nil)
		}
		return err
	})
}

var errChangedMind = errors.New("rolled back")

// transaction ends attempts and enqueues a batch, in one transaction; one in four
// is rolled back.
func (c *Client) transaction(ctx context.Context) error {
	batch, jobs := c.batch()
	ends := c.ends()
	outcomes := c.outcomes(ends)
	back := c.Rand.IntN(4) == 0
	return c.call(Note{Batch: batch, Ends: ends}, func(n *Note) error {
		err := c.DB.InTx(ctx, func(tx dibs.Tx) error {
			done, err := tx.Enqueue(ctx, jobs)
			n.IDs = ids(done)
			if err == nil {
				err = tx.Finish(ctx, outcomes)
			}
			if err == nil && back {
				err = errChangedMind
			}
			return err
		})
		return c.ended(ends, err)
	})
}

// ended forgets the jobs of a finish that took effect.
func (c *Client) ended(ends []Ending, err error) error {
	if err == nil {
		c.held = c.held[len(ends):]
		c.stale = &dibs.Lease{ID: ends[0].ID, Token: ends[0].Token}
	}
	return err
}

func (c *Client) holds(id int64) bool {
	for _, g := range c.held {
		if g.ID == id {
			return true
		}
	}
	return false
}

// ends makes an outcome for each of the first few jobs that the client holds.
func (c *Client) ends() []Ending {
	ends := make([]Ending, 1+c.Rand.IntN(len(c.held)))
	for i := range ends {
		g := c.held[i]
		text := fmt.Sprintf("job %d, attempt %d", g.ID, g.Attempt)
		soon := time.Duration(c.Rand.IntN(maxDelay)) * time.Millisecond
		var o dibs.Outcome
		switch c.Rand.IntN(10) {
		case 0:
			o = g.RetryAfter(soon, text)
		case 1:
			o = g.Snooze(soon)
		case 2:
			o = g.Release()
		case 3:
			o = g.Die(text)
		case 4:
			o = g.Cancel(text)
		default:
			o = g.Complete(json.RawMessage(strconv.Quote(text)))
		}
		ends[i] = Ending{o, g.Attempt}
	}
	return ends
}

func (c *Client) outcomes(ends []Ending) []dibs.Outcome {
	all := make([]dibs.Outcome, len(ends))
	for i, e := range ends {
		all[i] = e.Outcome
	}
	return all
}
