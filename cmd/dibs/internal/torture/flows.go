package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/dibs-queue/dibs"
)

const (
	fanOut     = 20  // how many jobs of a flow come after one
	flowOdds   = 5   // one enqueue in this many is of flows
	addOdds    = 20  // one completion in this many adds jobs: up to three, so that they come to an end
	stepOdds   = 8   // one job in this many has steps
	recentJobs = 500 // how many ids a producer remembers
)

// recent holds the ids of jobs that were enqueued lately, for others to come after.
type recent struct {
	mu  sync.Mutex
	ids []int64
}

func (r *recent) add(done []dibs.Enqueued) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range done {
		r.ids = append(r.ids, d.ID)
	}
	r.ids = r.ids[max(0, len(r.ids)-recentJobs):]
}

// any returns one of the ids, the newest most often, or 0.
func (r *recent) any(rng *rand.Rand) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) == 0 {
		return 0
	}
	return r.ids[len(r.ids)-1-min(rng.IntN(len(r.ids)), rng.IntN(len(r.ids)))]
}

// flows makes flows of about n jobs. Most jobs of a flow are for the queue, some for others.
func (c *client) flows(rng *rand.Rand, queue string, n int) (jobs []dibs.NewJob) {
	ref := 0
	add := func(options ...func(*dibs.NewJob)) {
		to := queue
		if rng.IntN(4) == 0 {
			to = queues[rng.IntN(len(queues))]
		}
		j := newJob(rng, to, c.key())
		for _, o := range options {
			o(&j)
		}
		jobs = append(jobs, j)
	}
	for len(jobs) < n {
		ref++
		name := func(role string) string { return fmt.Sprint(role, ref) }
		first, each, last := name("first"), name("each"), name("last")
		switch rng.IntN(5) {
		case 0:
			add(dibs.Ref(first))
			add(dibs.Ref(each), dibs.After(first))
			add(dibs.After(each))
		case 1:
			add(dibs.Ref(first))
			for range fanOut {
				add(dibs.Ref(each), dibs.After(first))
			}
			add(dibs.Ref(last), dibs.After(each))
			add(dibs.AfterEnd(each, last))
		case 2:
			for range 1 + rng.IntN(5) {
				add(dibs.Ref(each))
			}
			add(dibs.AfterEnd(each))
		case 3:
			add(dibs.Ref(first))
			add(dibs.AfterFailure(first))
			add(dibs.Ref(each), dibs.After(first))
			add(dibs.AfterFailure(each))
		default: // Here they come after a job that exists, or has ended.
			id := c.recent.any(rng)
			if id == 0 {
				continue
			}
			need := []dibs.Need{dibs.NeedCompleted, dibs.NeedCompleted, dibs.NeedEnded, dibs.NeedFailed}[rng.IntN(4)]
			add(dibs.Ref(first), func(j *dibs.NewJob) { j.After = []dibs.Dep{{ID: id, On: need}} })
			add(dibs.After(first))
		}
	}
	return jobs
}

// added makes the jobs that a completion adds: mostly none.
func (c *client) added(rng *rand.Rand) (jobs []dibs.NewJob) {
	if c.Adopted != "" || rng.IntN(addOdds) > 0 {
		return nil
	}
	queue := queues[rng.IntN(len(queues))]
	jobs = c.batch(rng, queue, 1+rng.IntN(3))
	if last := len(jobs) - 1; last > 0 {
		jobs[0].Ref, jobs[last].After = "first", []dibs.Dep{{Ref: "first"}}
	}
	return jobs
}

// hasSteps reports whether the handlers of a job do steps: all its attempts alike.
func (c *client) hasSteps(job *dibs.RawJob) bool { return c.Adopted == "" && job.ID%stepOdds == 0 }

// stepValue tells the attempts of a job apart: a later one that does not see the step writes another value.
func stepValue(job *dibs.RawJob) string { return job.Token.String() }

// doStep does a step of a job in a handler.
func doStep(ctx context.Context, job *dibs.RawJob, name string) error {
	_, err := dibs.Step(ctx, job, name, func(context.Context) (string, error) { return stepValue(job), nil })
	return err
}

// stepIn does a step of a job in the transaction that completes it.
func (c *client) stepIn(ctx context.Context, tx dibs.Tx, job *dibs.RawJob) error {
	if !c.hasSteps(job) {
		return nil
	}
	_, err := dibs.StepIn(ctx, tx, job, "third", func(context.Context) (string, error) { return stepValue(job), nil })
	return err
}

// putSteps asks for the steps of a job, and writes one, as a program without dibs' worker does.
func (a *claimer) putSteps(ctx context.Context, job *dibs.RawJob) error {
	steps, ok := a.store.(dibs.StepStore)
	if !ok || !a.hasSteps(job) {
		return nil
	}
	var done []dibs.StepDone
	answered, err := makeCall(ctx, a.rng, func(ctx context.Context) (err error) {
		done, err = steps.Steps(ctx, job.Lease())
		return err
	})
	if err != nil || !answered || len(done) > 0 {
		return err
	}
	value, err := json.Marshal(stepValue(job))
	if err != nil {
		return err
	}
	_, err = makeCall(ctx, a.rng, func(ctx context.Context) error { return steps.PutStep(ctx, job.Lease(), "first", value) })
	return err
}

// putStale writes a step with a token that is mostly no longer valid: then it must be refused.
func (a *claimer) putStale(ctx context.Context, l dibs.Lease) error {
	steps, ok := a.store.(dibs.StepStore)
	if !ok || a.Adopted != "" {
		return nil
	}
	_, err := makeCall(ctx, a.rng, func(ctx context.Context) error { return steps.PutStep(ctx, l, "stale", json.RawMessage("1")) })
	return err
}
