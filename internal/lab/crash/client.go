package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Client is a program that uses a store, as a worker under its own name.
type Client struct {
	Name     string         // unique among the clients that run at once
	DB       admin.Database // records the calls
	Rand     *rand.Rand
	Answered func() // called after each step, unless nil

	held  []*dibs.RawJob
	stale *dibs.Outcome // an outcome of an attempt that has ended
}

const (
	lease    = time.Hour // longer than any test
	maxJobs  = 12        // the most jobs of one call
	groups   = 5
	maxDelay = 20 // the longest delay of a retry or snooze, in milliseconds
)

// Loop makes calls until one fails, and returns that error. First it resumes the jobs that a
// killed client of the same name held.
func (c *Client) Loop(ctx context.Context) (err error) {
	c.held, err = c.DB.Resume(ctx, dibs.ClaimRequest{Worker: c.Name, Lease: lease})
	for err == nil {
		if c.Answered != nil {
			c.Answered()
		}
		err = c.step(ctx)
	}
	return fmt.Errorf("client %s: %w", c.Name, err)
}

func (c *Client) step(ctx context.Context) (err error) {
	if len(c.held) == 0 {
		c.held, err = c.DB.Claim(ctx, dibs.ClaimRequest{Worker: c.Name, N: 1 + c.Rand.IntN(maxJobs), Lease: lease})
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

// enqueue enqueues a batch. One in eight ends with an invalid job and is refused.
func (c *Client) enqueue(ctx context.Context) error {
	jobs := c.batch()
	if c.Rand.IntN(8) == 0 {
		jobs[len(jobs)-1].MaxAttempts = -1
	}
	_, err := c.DB.Enqueue(ctx, jobs)
	if errors.Is(err, dibs.ErrInvalid) {
		return nil
	}
	return err
}

// batch returns some new jobs. They may have many attempts, since each resume uses one.
func (c *Client) batch() []dibs.NewJob {
	jobs := make([]dibs.NewJob, 1+c.Rand.IntN(maxJobs))
	for i := range jobs {
		key := strconv.FormatUint(c.Rand.Uint64(), 36)
		jobs[i] = dibs.NewJob{Kind: "k", Payload: map[string]string{"key": key}, MaxAttempts: 100 + c.Rand.IntN(9)}
		switch c.Rand.IntN(4) {
		case 0:
			jobs[i].Group = strconv.Itoa(c.Rand.IntN(groups))
		case 1:
			jobs[i].UniqueKey = key
		}
	}
	return jobs
}

// finish ends some of the attempts that the client holds. One call in five also contains an
// outcome for an attempt that has ended, which the store must refuse.
func (c *Client) finish(ctx context.Context) error {
	stale, outcomes := c.stale, c.outcomes()
	sameJob := func(o dibs.Outcome) bool { return o.ID == stale.ID }
	if stale != nil && c.Rand.IntN(5) == 0 && !slices.ContainsFunc(outcomes, sameJob) {
		outcomes = append(outcomes, *stale)
	}
	err := c.DB.Finish(ctx, outcomes)
	if errors.Is(err, dibs.ErrLeaseLost) { // the judge decides whether the refusal is right
		return nil
	}
	return err
}

var errChangedMind = errors.New("rolled back")

// transaction ends attempts and enqueues a batch in one transaction. One in four is rolled
// back.
func (c *Client) transaction(ctx context.Context) error {
	held, outcomes := c.held, c.outcomes()
	err := c.DB.InTx(ctx, func(tx dibs.Tx) error {
		_, err := tx.Enqueue(ctx, c.batch())
		if err == nil {
			err = tx.Finish(ctx, outcomes)
		}
		if err == nil && c.Rand.IntN(4) == 0 {
			err = errChangedMind
		}
		return err
	})
	if errors.Is(err, errChangedMind) {
		c.held, c.stale = held, nil
		return nil
	}
	return err
}

// staleText is the result in outcomes for attempts that have ended.
const staleText = `"stale"`

// outcomes ends the first few attempts that the client holds.
func (c *Client) outcomes() []dibs.Outcome {
	outcomes := make([]dibs.Outcome, 1+c.Rand.IntN(len(c.held)))
	for i := range outcomes {
		outcomes[i] = c.outcome(c.held[i])
	}
	c.held = c.held[len(outcomes):]
	stale := dibs.Lease{ID: outcomes[0].ID, Token: outcomes[0].Token}.Complete(json.RawMessage(staleText))
	c.stale = &stale
	return outcomes
}

func (c *Client) outcome(j *dibs.RawJob) dibs.Outcome {
	l := j.Lease()
	text := fmt.Sprintf("job %d, attempt %d", j.ID, j.Attempt)
	soon := time.Duration(c.Rand.IntN(maxDelay)) * time.Millisecond
	switch c.Rand.IntN(10) {
	case 0:
		return l.RetryAfter(soon, text)
	case 1:
		return l.Snooze(soon)
	case 2:
		return l.Release()
	case 3:
		return l.Die(text)
	case 4:
		return l.Cancel(text)
	default:
		return l.Complete(json.RawMessage(strconv.Quote(text)))
	}
}
