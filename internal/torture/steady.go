package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
)

// After a claim whose answer nobody got, the judge must suppose for seconds that it
// holds any job of its queue. So some promises are tried by a process that nothing
// hits, in the midst of those that are hit.

const (
	steadyBatch = 120              // jobs; done in about three seconds
	longLease   = 15 * time.Second // more than promise 4 and the slack forgive
)

// serve takes a few jobs from the steady queue and ends them. It fills the queue when
// it is empty, so that jobs wait in order for seconds, and then none is left.
func (r *run) serve(ctx context.Context, rng *rand.Rand) error {
	n := 1 + rng.IntN(5)
	if rng.IntN(25) == 0 {
		return r.giveUp(ctx)
	}
	jobs, err := r.admin.Claim(ctx, dibs.ClaimRequest{Queue: steady, Worker: "operator", N: n})
	if err != nil {
		return err
	}
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Complete(nil)
		if rng.IntN(20) == 0 {
			outcomes[i] = j.Lease().Release()
		}
	}
	if len(jobs) > 0 {
		err = r.admin.Finish(ctx, outcomes)
	}
	if err != nil || len(jobs) == n {
		return err
	}
	batch := make([]dibs.NewJob, steadyBatch)
	for i := range batch {
		r.enqueued++
		key := fmt.Sprintf("steady-%d", r.enqueued)
		batch[i] = dibs.NewJob{Queue: steady, Kind: "work", Payload: payload{Key: key}, Priority: ptr(rng.IntN(3) * 100)}
	}
	_, err = r.admin.Enqueue(ctx, batch)
	return err
}

// giveUp claims a job for long, thinks better of it, and forgets it.
func (r *run) giveUp(ctx context.Context) error {
	jobs, err := r.admin.Claim(ctx, dibs.ClaimRequest{Queue: steady, Worker: "operator", N: 1, Lease: longLease})
	if err != nil || len(jobs) == 0 {
		return err
	}
	_, err = r.admin.Extend(ctx, []dibs.Lease{jobs[0].Lease()}, lease/4)
	return err
}

// clear completes what is in the steady queue.
func (r *run) clear(ctx context.Context) error {
	jobs, err := r.admin.Claim(ctx, dibs.ClaimRequest{Queue: steady, Worker: "operator", N: maxClaim})
	if err != nil || len(jobs) == 0 {
		return err
	}
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Complete(nil)
	}
	return r.admin.Finish(ctx, outcomes)
}

// claimTwice claims from the limited queue again and again in one transaction, which
// it gives up: others find nothing there as long as it lasts.
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
