package torture

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// misuse makes calls at the beginning of the transaction id that must have no effect.
func (c *client) misuse(ctx context.Context, rng *rand.Rand, t *sql.Tx, tx dibs.Tx, id string) error {
	queue := txQueues[rng.IntN(len(txQueues))]
	if rng.IntN(2) == 0 {
		return c.impatient(ctx, rng, queue, history.WrapTx(tx, c.rec, id))
	}
	return c.rollBackToSavepoint(ctx, rng, queue, t, tx, id)
}

// impatient enqueues or claims with a short timeout. If that fails, everything that the
// transaction does afterwards must be rolled back too.
func (c *client) impatient(ctx context.Context, rng *rand.Rand, queue string, tx dibs.Tx) (err error) {
	short, stop := context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
	defer stop()
	if rng.IntN(2) == 0 {
		_, err = tx.Claim(short, dibs.ClaimRequest{Queue: queue, Worker: c.Client + "-short", N: 1 + rng.IntN(maxClaim)})
	} else {
		_, err = tx.Enqueue(short, c.batch(rng, queue, 1+rng.IntN(maxBatch)))
	}
	if err != nil {
		_, _ = tx.Enqueue(ctx, c.batch(rng, queue, 1+rng.IntN(5))) // only the first error counts
	}
	return err
}

// rollBackToSavepoint makes calls and rolls them back to a savepoint. They are recorded as a
// separate transaction. Other workers may then claim the same jobs, so outcomes of the
// claims that were rolled back must be refused.
func (c *client) rollBackToSavepoint(ctx context.Context, rng *rand.Rand, queue string, t *sql.Tx, tx dibs.Tx, id string) (err error) {
	own := c.rec.NewTx()
	inside := history.WrapTx(tx, c.rec, own)
	if _, err := t.ExecContext(ctx, "savepoint undone"); err != nil {
		return errNoEffect
	}
	ended := false
	defer func() {
		if !ended { // the whole transaction is rolled back now
			_ = c.rec.Rollback(own, func() error { return err })
		}
	}()
	if _, err := inside.Enqueue(ctx, c.batch(rng, queue, 1+rng.IntN(5))); err != nil {
		return err
	}
	jobs, err := inside.Claim(ctx, dibs.ClaimRequest{Queue: queue, Worker: c.Client + "-undone", N: 1 + rng.IntN(5)})
	if err != nil {
		return err
	}
	var outcomes []dibs.Outcome
	for _, j := range jobs {
		outcomes = append(outcomes, j.Lease().Retry("failed on purpose"))
	}
	if len(outcomes) > 0 && rng.IntN(2) == 0 {
		if err := inside.Finish(ctx, outcomes[:1]); err != nil {
			return err
		}
	}
	ended = true
	err = c.rec.Rollback(own, func() error {
		_, err := t.ExecContext(ctx, "rollback to savepoint undone")
		return err
	})
	if err != nil {
		return errNoEffect
	}
	if len(outcomes) == 0 || rng.IntN(2) == 0 {
		return nil
	}
	wait(ctx, time.Duration(rng.IntN(100))*time.Millisecond) // others may claim and finish them meanwhile
	err = history.WrapTx(tx, c.rec, id).Finish(ctx, outcomes)
	if errors.Is(err, dibs.ErrLeaseLost) {
		return nil
	}
	return err
}
