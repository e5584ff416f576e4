package torture

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

const (
	maxBatch  = 200                    // the most jobs of one enqueue
	lookEvery = 100 * time.Millisecond // how often a producer reads the backlog
)

// produce enqueues jobs while the backlog is short, until ctx ends.
func (c *client) produce(ctx context.Context) error {
	rng := c.newRand()
	room := map[string]int{}
	var looked time.Time
	for ctx.Err() == nil {
		if time.Since(looked) > lookEvery {
			stats, err := c.raw.Stats(ctx)
			if unexpected(err) != nil {
				return err
			}
			looked = time.Now()
			for _, s := range stats {
				room[s.Queue] = backlog - int(s.Waiting+s.Blocked+s.Running)
			}
		}
		queue := queues[rng.IntN(len(queues))]
		if room[queue] <= 0 {
			wait(ctx, 5*time.Millisecond)
			continue
		}
		n := 1 + rng.IntN(min(maxBatch, room[queue]))
		jobs := c.batch(rng, queue, n)
		if rng.IntN(flowOdds) == 0 {
			jobs = c.flows(rng, queue, n)
		}
		room[queue] -= len(jobs)
		if _, err := makeCall(ctx, rng, func(ctx context.Context) error { return c.enqueue(ctx, rng, jobs) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) batch(rng *rand.Rand, queue string, n int) []dibs.NewJob {
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = newJob(rng, queue, c.key())
	}
	return jobs
}

// inTwo divides jobs, unless some of them come after others.
func inTwo(jobs []dibs.NewJob) [][]dibs.NewJob {
	if slices.ContainsFunc(jobs, func(j dibs.NewJob) bool { return len(j.After) > 0 }) {
		return [][]dibs.NewJob{jobs}
	}
	return [][]dibs.NewJob{jobs[:len(jobs)/2], jobs[len(jobs)/2:]}
}

var errRollback = errors.New("rolled back on purpose")

// enqueue enqueues jobs by a plain call, over HTTP, in InTx, or in the caller's own transaction.
func (c *client) enqueue(ctx context.Context, rng *rand.Rand, jobs []dibs.NewJob) error {
	switch rng.IntN(8) {
	case 0: // InTx, rolled back half of the time
		err := c.store.InTx(ctx, func(tx dibs.Tx) error {
			if _, err := tx.Enqueue(ctx, jobs); err != nil || rng.IntN(2) == 0 {
				return err
			}
			return errRollback
		})
		if errors.Is(err, errRollback) {
			return nil
		}
		return err
	case 1: // the caller's transaction, in two calls
		_, err := c.inTx(ctx, rng, func(_ *sql.Tx, tx dibs.Tx) error {
			for _, part := range inTwo(jobs) {
				if len(part) == 0 {
					continue
				}
				if _, err := tx.Enqueue(ctx, part); err != nil {
					return err
				}
			}
			return nil
		})
		c.raw.Wake(jobs[0].Queue)
		return err
	case 2, 3:
		_, err := c.overHTTP.Enqueue(ctx, jobs)
		return err
	default:
		done, err := c.store.Enqueue(ctx, jobs)
		c.recent.add(done)
		return err
	}
}
