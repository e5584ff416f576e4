package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/needs"
)

const fairEnqueuers = 2

// fairJudged has groups with backlogs, of which some have many places, and enqueues again and again a job of a new
// group, while many claim and end jobs at random. The judge says how many jobs of others came before it.
func fairJudged(t *test) {
	if t.fairWithBacklogs(20, 3, 5) == 0 {
		t.Error("nothing showed whether groups take turns")
	}
}

// With few groups of many places, the turns go on fast.
func fairJudgedFew(t *test) {
	t.fairWithBacklogs(8, 9, 3) // a job may start before others can, so perhaps nothing shows it
}

// fairWithBacklogs has this many groups with backlogs, and gives every second one more places, mostPlaces at most.
func (t *test) fairWithBacklogs(groups, mostPlaces, claimers int) (cases int) {
	judge := t.record()
	t.fair(dibs.QueueChange{Backoff: &dibs.Backoff{Base: time.Millisecond, Factor: 1, Max: time.Millisecond}, MaxAttempts: new(20)})
	for g := range groups / 2 {
		t.must(t.db.ChangeGroup(t.ctx, dibs.DefaultQueue, fmt.Sprint("g", g), dibs.GroupChange{Limit: new(mostPlaces - g%3)}.Apply))
	}
	rounds := raceSize(16)
	if needs.AtNight() {
		rounds *= 20
	}
	var done atomic.Int64 // enqueuers that have enqueued everything
	var alone sync.Map    // groups of one job each, with the channel to close when it is claimed
	t.runOnStores(fairEnqueuers+claimers, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		if i < fairEnqueuers {
			defer done.Add(1)
			return fairEnqueue(ctx, db, r, groups, rounds, i, &alone)
		}
		for {
			last := done.Load() == fairEnqueuers
			if err := fairWork(ctx, db, r, i, &alone); err != nil {
				return err
			}
			if left, err := db.List(ctx, admin.Filter{Queue: dibs.DefaultQueue, Limit: 1}); err != nil || last && len(left.Jobs) == 0 {
				return err
			}
		}
	})
	for _, v := range judge(nil) {
		if v.Promise == history.FairTurns {
			cases = v.Checked
		}
	}
	t.Logf("%d times a job of another group started before a job that was alone in its own", cases)
	return cases
}

// fairEnqueue enqueues in each round jobs of groups with backlogs, and one of a new group, for whose claim it waits.
func fairEnqueue(ctx context.Context, db admin.Database, r *rand.Rand, groups, rounds, i int, alone *sync.Map) error {
	backlog := 8 * groups // older than all that are alone
	for round := range rounds {
		batch := make([]dibs.NewJob, backlog)
		for k := range batch {
			batch[k] = dibs.NewJob{Kind: "k", Group: fmt.Sprint("g", r.IntN(groups)), Priority: new(r.IntN(4))}
		}
		if _, err := db.Enqueue(ctx, batch); err != nil {
			return err
		}
		backlog = 2 + groups/2 // about what starts before the next round
		group, claimed := fmt.Sprintf("alone-%d-%d", i, round), make(chan struct{})
		alone.Store(group, claimed)
		if _, err := db.Enqueue(ctx, []dibs.NewJob{{Kind: "k", Group: group, Priority: new(r.IntN(4))}}); err != nil {
			return err
		}
		select {
		case <-claimed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fairWork claims a few jobs and ends them, some in another way than by completion.
func fairWork(ctx context.Context, db admin.Database, r *rand.Rand, i int, alone *sync.Map) error {
	jobs, err := db.Claim(ctx, dibs.ClaimRequest{N: 1 + r.IntN(2), Worker: fmt.Sprint("w", i), Lease: time.Hour})
	if err != nil || len(jobs) == 0 {
		return err
	}
	end := make([]dibs.Outcome, len(jobs))
	for k, j := range jobs {
		if claimed, ok := alone.LoadAndDelete(j.Group); ok {
			close(claimed.(chan struct{}))
		}
		switch l := j.Lease(); r.IntN(40) {
		case 0:
			end[k] = l.Retry("e")
		case 1:
			end[k] = l.Snooze(time.Duration(r.IntN(10)) * time.Millisecond)
		case 2:
			end[k] = l.Release()
		default:
			end[k] = l.Complete(nil)
		}
	}
	return db.Finish(ctx, end)
}
