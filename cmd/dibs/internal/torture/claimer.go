package torture

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

// claimer calls the store directly, like a program without dibs' worker. It holds some jobs
// longer than their leases, and tries to finish jobs that it no longer holds.
type claimer struct {
	*client
	store         dibs.Store // records its calls
	queue         string
	name          string
	most          int // jobs of one claim
	rng           *rand.Rand
	staleOutcomes [8][]dibs.Outcome // outcomes of earlier rounds, whose tokens are no longer valid
}

// httpSuffix ends the names of claimers whose calls go over HTTP.
const httpSuffix = "-http"

func (c *client) runClaimer(ctx context.Context, store dibs.Store, queue string) error {
	a := &claimer{client: c, store: store, queue: queue, name: c.Name + "-" + queue + "-raw", rng: c.newRand(), most: maxClaim}
	if store == c.overHTTP {
		a.name, a.most = a.name+httpSuffix, oneClaim
	}
	if c.Adopted == "" || c.Resumes {
		if err := a.resume(ctx); err != nil {
			return err
		}
	}
	for round := 0; ctx.Err() == nil; round++ {
		var jobs []*dibs.RawJob
		var err error
		if a.rng.IntN(30) == 0 && slices.Contains(txQueues, queue) {
			jobs, err = a.claimTx(ctx)
		} else {
			jobs, err = a.claim(ctx, 1+a.rng.IntN(a.most))
		}
		if err == nil && len(jobs) > 0 {
			err = a.workOn(ctx, round, jobs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resume takes back the jobs that the previous process held under this name.
func (a *claimer) resume(ctx context.Context) error {
	var jobs []*dibs.RawJob
	_, err := makeCall(ctx, a.rng, func(ctx context.Context) (err error) {
		jobs, err = a.store.Resume(ctx, dibs.ClaimRequest{Queue: a.queue, Worker: a.name})
		return err
	})
	if err != nil || len(jobs) == 0 {
		return err
	}
	return a.workOn(ctx, 0, jobs)
}

func (a *claimer) claim(ctx context.Context, n int) (jobs []*dibs.RawJob, err error) {
	_, err = makeCall(ctx, a.rng, func(ctx context.Context) (err error) {
		jobs, err = a.store.Claim(ctx, dibs.ClaimRequest{Queue: a.queue, Worker: a.name, N: n})
		return err
	})
	if len(jobs) == 0 {
		wait(ctx, 20*time.Millisecond)
	}
	return jobs, err
}

// workOn holds the jobs for a while and finishes them. Sometimes it finishes them or earlier jobs
// once more, which must be refused.
func (a *claimer) workOn(ctx context.Context, round int, jobs []*dibs.RawJob) error {
	switch n := a.rng.IntN(200); {
	case n == 0:
		wait(ctx, lease+lease/5) // longer than the lease: every outcome must be refused
	case n < 15:
		if err := a.extend(ctx, jobs); err != nil {
			return err
		}
		wait(ctx, time.Duration(a.rng.Int64N(int64(lease))))
	case n < 20:
		wait(ctx, time.Duration(a.rng.Int64N(int64(lease))))
	}
	if err := a.putSteps(ctx, jobs[0]); err != nil {
		return err
	}
	inTx := 0
	if a.rng.IntN(4) == 0 && a.Adopted == "" {
		inTx = min(len(jobs), 1+a.rng.IntN(8))
		if _, err := a.finishTx(ctx, a.rng, jobs[:inTx]); err != nil {
			return err
		}
	}
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = a.outcome(j.Lease())
	}
	rest := outcomes[inTx:]
	if a.rng.IntN(4) == 0 {
		rest = outcomes // also those in the transaction, whether it was committed or not
	}
	if err := a.finish(ctx, rest); err != nil {
		return err
	}
	if a.rng.IntN(20) == 0 {
		stale := a.staleOutcomes[a.rng.IntN(len(a.staleOutcomes))]
		if err := a.finish(ctx, stale); err != nil {
			return err
		}
		if len(stale) > 0 {
			if err := a.putStale(ctx, dibs.Lease{ID: stale[0].ID, Token: stale[0].Token}); err != nil {
				return err
			}
		}
	}
	a.staleOutcomes[round%len(a.staleOutcomes)] = outcomes
	return nil
}

func (a *claimer) extend(ctx context.Context, jobs []*dibs.RawJob) error {
	leases := make([]dibs.Lease, len(jobs))
	for i, j := range jobs {
		leases[i] = j.Lease()
	}
	_, err := makeCall(ctx, a.rng, func(ctx context.Context) error {
		_, err := a.store.Extend(ctx, leases, lease)
		return err
	})
	return err
}

// finish writes outcomes, sometimes twice.
func (a *claimer) finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	repeatOdds := 20
	if a.Adopted != "" { // fewer calls are made, and a short run should try this too
		repeatOdds = 2
	}
	answered, err := makeCall(ctx, a.rng, func(ctx context.Context) error { return a.store.Finish(ctx, outcomes) })
	if err != nil || answered && a.rng.IntN(repeatOdds) > 0 {
		return err
	}
	_, err = makeCall(ctx, a.rng, func(ctx context.Context) error { return a.store.Finish(ctx, outcomes) })
	return err
}

func (a *claimer) outcome(l dibs.Lease) dibs.Outcome {
	delay := time.Duration(a.rng.IntN(300)) * time.Millisecond
	switch n := a.rng.IntN(100); {
	case n < 5:
		return l.Retry("failed on purpose")
	case n < 8:
		return l.RetryAfter(delay, "failed on purpose")
	case n < 11:
		return l.Snooze(delay)
	case n < 14:
		return l.Release()
	case n < 15:
		return l.Die("died on purpose")
	case n < 16:
		return l.Cancel("cancelled on purpose")
	}
	o := l.Complete(fmt.Appendf(nil, "%d", l.ID))
	o.Add = a.added(a.rng)
	return o
}

// claimTx claims jobs in a transaction. There it completes some with their effects, and
// sometimes fails one. It returns the jobs that are still claimed after the commit.
func (a *claimer) claimTx(ctx context.Context) (leftClaimed []*dibs.RawJob, err error) {
	committed, err := a.inTx(ctx, a.rng, func(t *sql.Tx, tx dibs.Tx) error {
		jobs, err := tx.Claim(ctx, dibs.ClaimRequest{Queue: a.queue, Worker: a.name, N: 1 + a.rng.IntN(5)})
		if err != nil || len(jobs) == 0 {
			return err
		}
		if a.rng.IntN(20) == 0 {
			wait(ctx, lease+lease/5) // longer than a lease outside of a transaction
		}
		n := a.rng.IntN(len(jobs) + 1)
		leftClaimed = jobs[n:]
		var outcomes []dibs.Outcome
		for i, j := range jobs[:n] {
			if i == 0 && a.rng.IntN(3) == 0 {
				outcomes = append(outcomes, j.Lease().Retry("failed on purpose"))
				continue
			}
			if err := a.effect(ctx, t, j.ID); err != nil {
				return err
			}
			outcomes = append(outcomes, j.Lease().Complete(nil))
		}
		if len(outcomes) == 0 {
			return nil
		}
		return tx.Finish(ctx, outcomes)
	})
	if !committed {
		leftClaimed = nil
	}
	return leftClaimed, err
}
