package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// changeLimit raises or lowers a limit or a rate.
func (r *run) changeLimit(ctx context.Context, rng *rand.Rand) error {
	r.count(limits)
	switch rng.IntN(8) {
	case 0:
		limit := []int{0, 3, 30}[rng.IntN(3)] // 0: no limit, so that a later change sets a first one
		_, err := r.admin.ChangeQueue(ctx, limited, dibs.QueueChange{Concurrency: &limit}.Apply)
		return err
	case 1:
		_, err := r.admin.ChangeQueue(ctx, grouped, dibs.QueueChange{GroupLimit: ptr(1 + rng.IntN(3))}.Apply)
		return err
	case 2: // seldom, so that windows pass without a change
		if rng.IntN(8) > 0 {
			return nil
		}
		rate := dibs.Rate{N: 50 + rng.IntN(150), Per: time.Second, Burst: rng.IntN(20)}
		_, err := r.admin.ChangeQueue(ctx, paced, dibs.QueueChange{Rate: &rate}.Apply)
		return err
	case 3:
		rate := dibs.Rate{N: 5 + rng.IntN(10), Per: time.Second, Burst: rng.IntN(3)}
		if rng.IntN(5) == 0 {
			rate = dibs.Rate{}
		}
		return r.admin.ChangeGroup(ctx, paced, groupName(rng.IntN(groups)), dibs.GroupChange{Rate: &rate}.Apply)
	default:
		return r.admin.ChangeGroup(ctx, grouped, groupName(rng.IntN(groups)), dibs.GroupChange{Limit: new(rng.IntN(4))}.Apply)
	}
}

// pauseOne pauses a queue for a moment.
func (r *run) pauseOne(ctx context.Context, rng *rand.Rand) error {
	q := queues[rng.IntN(len(queues))]
	if _, err := r.admin.ChangeQueue(ctx, q, dibs.QueueChange{Paused: ptr(true)}.Apply); err != nil {
		return err
	}
	r.count(pauses)
	wait(ctx, time.Duration(rng.IntN(1000))*time.Millisecond)
	_, err := r.admin.ChangeQueue(ctx, q, dibs.QueueChange{Paused: ptr(false)}.Apply)
	return err
}

// changeJobs cancels, edits or requeues a few jobs.
func (r *run) changeJobs(ctx context.Context, rng *rand.Rand) error {
	states := []dibs.State{dibs.Waiting, dibs.Blocked, dibs.Running, dibs.Completed, dibs.Dead, dibs.Cancelled}
	f := admin.Filter{Queue: queues[rng.IntN(len(queues))], State: states[rng.IntN(len(states))], Limit: 20}
	page, err := r.DB.List(ctx, f)
	if err != nil {
		return err
	}
	var ids []int64
	for _, j := range page.Jobs {
		if rng.IntN(5) == 0 {
			ids = append(ids, j.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	r.count(meddling)
	switch {
	case f.State.Final():
		_, err = r.admin.Requeue(ctx, ids, time.Time{})
	case rng.IntN(2) == 0 && f.State != dibs.Running:
		e := admin.Edit{Priority: ptr(rng.IntN(400))}
		if rng.IntN(2) == 0 {
			e.RunAt = ptr(time.Now().Add(time.Duration(rng.IntN(1000)) * time.Millisecond))
		}
		_, err = r.admin.Edit(ctx, ids, e)
	default:
		_, _, err = r.admin.Cancel(ctx, ids)
	}
	return err
}

// unpause ends all pauses, so that all jobs can run. It changes no limit, since that would
// wake a group that is stuck.
func (r *run) unpause(ctx context.Context) error {
	for _, q := range queues {
		for {
			_, err := r.admin.ChangeQueue(ctx, q, dibs.QueueChange{Paused: ptr(false)}.Apply)
			if err == nil {
				break
			}
			if unexpected(err) != nil || ctx.Err() != nil {
				return err
			}
			wait(ctx, 100*time.Millisecond) // the server was ended just before
		}
	}
	return nil
}
