package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
)

// For seconds after a claim without an answer, the judge must assume that it holds any job of its queue.
// So two queues are used only by the operator, whom no fault hits.

const (
	steadyBatch = 120              // jobs of one batch, which take about three seconds
	longLease   = 15 * time.Second // longer than promise 4 and the slack allow a job to wait

	turnTakers = 3  // how many claim from the queue whose groups take turns
	turnGroups = 8  // its groups with backlogs
	turnBatch  = 40 // jobs of a batch when it is empty
)

// serveSteady claims a few jobs from the steady queue and ends them. When the queue is empty it
// enqueues a batch, so that jobs wait for seconds and then none is left.
func (r *run) serveSteady(ctx context.Context, rng *rand.Rand) error {
	n := 1 + rng.IntN(5)
	if rng.IntN(25) == 0 {
		return r.shortenLease(ctx)
	}
	jobs, err := r.admin.Claim(ctx, dibs.ClaimRequest{Queue: steady, Worker: "operator", N: n})
	if err != nil {
		return err
	}
	if err = r.end(ctx, jobs, func() bool { return rng.IntN(20) == 0 }); err != nil || len(jobs) == n {
		return err
	}
	batch := make([]dibs.NewJob, steadyBatch)
	for i := range batch {
		r.steadyJobs++
		key := fmt.Sprintf("steady-%d", r.steadyJobs)
		batch[i] = dibs.NewJob{Queue: steady, Kind: "work", Payload: payload{Key: key}, Priority: ptr(rng.IntN(3) * 100)}
	}
	_, err = r.admin.Enqueue(ctx, batch)
	return err
}

// shortenLease claims a job with a long lease, shortens the lease, and abandons the job.
func (r *run) shortenLease(ctx context.Context) error {
	jobs, err := r.admin.Claim(ctx, dibs.ClaimRequest{Queue: steady, Worker: "operator", N: 1, Lease: longLease})
	if err != nil || len(jobs) == 0 {
		return err
	}
	_, err = r.admin.Extend(ctx, []dibs.Lease{jobs[0].Lease()}, lease/4)
	return err
}

// serveTurns claims a job or two from the fair queue and ends them. In their place it enqueues others of the groups with
// backlogs, and sometimes one that is alone in its group.
func (r *run) serveTurns(ctx context.Context, rng *rand.Rand) error {
	n := 1 + rng.IntN(2)
	worker := fmt.Sprintf("operator-%d", rng.IntN(turnTakers)) // else one statement would serve claims made at once
	jobs, err := r.admin.Claim(ctx, dibs.ClaimRequest{Queue: turns, Worker: worker, N: n})
	if err != nil {
		return err
	}
	if len(jobs) < n {
		n = turnBatch
	}
	batch := make([]dibs.NewJob, n)
	for i := range batch {
		batch[i] = newTurn(rng, groupName(rng.IntN(turnGroups)))
	}
	if rng.IntN(3) == 0 {
		batch = append(batch, newTurn(rng, fmt.Sprintf("alone-%d", rng.Uint64())))
	}
	if _, err = r.admin.Enqueue(ctx, batch); err != nil {
		return err
	}
	return r.end(ctx, jobs, func() bool { return rng.IntN(50) == 0 })
}

func newTurn(rng *rand.Rand, group string) dibs.NewJob {
	key := fmt.Sprintf("turn-%d", rng.Uint64())
	return dibs.NewJob{Queue: turns, Kind: "work", Payload: payload{Key: key}, Group: group, Priority: ptr(rng.IntN(3) * 100)}
}

// completeSteady completes jobs of the operator's queues.
func (r *run) completeSteady(ctx context.Context) error {
	for _, queue := range []string{steady, turns} {
		jobs, err := r.admin.Claim(ctx, dibs.ClaimRequest{Queue: queue, Worker: "operator", N: maxClaim})
		if err != nil {
			return err
		}
		if err := r.end(ctx, jobs, func() bool { return false }); err != nil {
			return err
		}
	}
	return nil
}

// end releases some of the operator's jobs, and completes the others.
func (r *run) end(ctx context.Context, jobs []*dibs.RawJob, released func() bool) error {
	if len(jobs) == 0 {
		return nil
	}
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		if outcomes[i] = j.Lease().Complete(nil); released() {
			outcomes[i] = j.Lease().Release()
		}
	}
	return r.admin.Finish(ctx, outcomes)
}

// claimTwice claims from the limited queue several times in one transaction, and rolls it
// back. Other claims of the queue find nothing while it is open.
func (r *run) claimTwice(ctx context.Context, _ *rand.Rand) error {
	err := r.admin.InTx(ctx, func(tx dibs.Tx) error {
		for range 3 {
			if _, err := tx.Claim(ctx, dibs.ClaimRequest{Queue: limited, Worker: "operator", N: maxClaim}); err != nil {
				return err
			}
		}
		return errRollback
	})
	if errors.Is(err, errRollback) {
		return nil
	}
	return err
}
