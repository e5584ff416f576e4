package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// raceRate is the rate of the races below: some windows pass while they run.
var raceRate = dibs.Rate{N: 30, Per: time.Second, Burst: 5}

func rateRace(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Rate: &raceRate, Lease: new(time.Second), MaxAttempts: new(1000)})
	t.enqueue(copies(60, dibs.NewJob{Kind: "k"})...)
	starts := t.startsUntil(120)
	t.noWindowHasMore(starts[""])
}

func rateGroupRace(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Lease: new(time.Second), MaxAttempts: new(1000), GroupLimit: new(4)})
	for _, g := range []string{"g", "h"} {
		t.setRate(dibs.DefaultQueue, g, &raceRate)
		t.enqueue(copies(40, grouped(g))...)
	}
	starts := t.startsUntil(160)
	t.noWindowHasMore(starts["g"])
	t.noWindowHasMore(starts["h"])
}

// startsUntil claims on several stores until n attempts have started, ends them in all ways or
// leaves them, and returns when those of each group started.
func (t *test) startsUntil(n int) map[string][]time.Time {
	t.Helper()
	var mu sync.Mutex
	starts, total := map[string][]time.Time{}, 0
	t.runOnStores(6, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		for {
			mu.Lock()
			done := total >= n
			mu.Unlock()
			if done {
				return nil
			}
			jobs, err := db.Claim(ctx, dibs.ClaimRequest{N: 1 + r.IntN(8), Worker: fmt.Sprint("w", i)})
			if err != nil {
				return err
			}
			var ends []dibs.Outcome
			mu.Lock()
			for _, j := range jobs {
				starts[j.Group] = append(starts[j.Group], j.ClaimedAt)
				total++
				if k := r.IntN(8); k < 7 { // the others are left to their leases
					ends = append(ends, []dibs.Outcome{j.Lease().Release(), j.Lease().RetryAfter(0, "e"), j.Lease().Snooze(0)}[k%3])
				}
			}
			mu.Unlock()
			if len(ends) > 0 {
				if err := db.Finish(ctx, ends); err != nil && !errors.Is(err, dibs.ErrLeaseLost) {
					return err
				}
			}
			if _, err := db.Sweep(ctx); err != nil {
				return err
			}
			if len(jobs) == 0 {
				time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
			}
		}
	})
	return starts
}

// noWindowHasMore counts the starts in every window of raceRate.
func (t *test) noWindowHasMore(starts []time.Time) {
	t.Helper()
	if len(starts) < 20 {
		t.Fatalf("only %d attempts started", len(starts))
	}
	slices.SortFunc(starts, time.Time.Compare)
	most, first := 0, 0
	for i, at := range starts {
		for at.Sub(starts[first]) >= raceRate.Per {
			first++
		}
		most = max(most, i-first+1)
	}
	if allowed := raceRate.N + raceRate.Burst; most > allowed {
		t.Fatalf("%d attempts started within %v, allowed are %d", most, raceRate.Per, allowed)
	}
	t.Logf("at most %d of %d attempts started within %v", most, len(starts), raceRate.Per)
}

// rateSetAmidClaims sets rates while claims go on: claims that began before may take any number of jobs, and all
// later ones together one.
func rateSetAmidClaims(t *test) {
	const jobs, claimers = 300, 6
	t.enqueue(copies(jobs, dibs.NewJob{Kind: "k"})...)
	var mu sync.Mutex
	var set bool
	after := 0
	t.runOnStores(claimers+1, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		if i == claimers {
			_, err := db.ChangeQueue(ctx, dibs.DefaultQueue, dibs.QueueChange{Rate: slow(1)}.Apply)
			mu.Lock()
			set = true
			mu.Unlock()
			return err
		}
		for range 30 {
			mu.Lock()
			began := set
			mu.Unlock()
			got, err := db.Claim(ctx, dibs.ClaimRequest{N: 1, Worker: fmt.Sprint("w", i)})
			if err != nil {
				return err
			}
			mu.Lock()
			if began {
				after += len(got)
			}
			mu.Unlock()
		}
		return nil
	})
	if after > 1 {
		t.Fatalf("%d jobs were claimed by calls that began after the rate was set, want at most 1", after)
	}
}

// rateWakes claims only when it is woken, from a queue that lets the next job start at about the
// time of the claim.
func rateWakes(t *test) {
	t.setRate(dibs.DefaultQueue, "", &dibs.Rate{N: 2000, Per: time.Second})
	wake, stop := t.db.Wakeups(dibs.DefaultQueue)
	defer stop()
	const n, most = 1500, 100
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	for done := 0; done < n; {
		jobs := t.claim(dibs.ClaimRequest{N: most})
		t.complete(jobs...)
		if done += len(jobs); done == n || len(jobs) == most {
			continue
		}
		select {
		case <-wake:
		case <-time.After(time.Minute):
			t.Fatalf("nobody was woken after %d of %d jobs", done, n)
		}
	}
}
