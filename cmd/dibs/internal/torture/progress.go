package torture

import (
	"context"
	"maps"
	"time"

	"github.com/dibs-queue/dibs/admin"
)

// Progress says how far a run has come.
type Progress struct {
	Stage string // running, draining or judging
	// Interrupted says that the faults ended early.
	Interrupted bool
	Elapsed     time.Duration
	Faults      map[string]int // how many there were so far, by name
	Queues      []admin.QueueStats

	// These are known of a demo only.
	Jobs    int // how many jobs the demo enqueues
	Workers []WorkerProgress
	Notes   []Note
}

// Counts adds up the jobs of all queues.
func (p *Progress) Counts() (sum admin.QueueStats) {
	for _, s := range p.Queues {
		sum.Waiting, sum.Blocked, sum.Running = sum.Waiting+s.Waiting, sum.Blocked+s.Blocked, sum.Running+s.Running
		sum.Completed, sum.Dead, sum.Cancelled = sum.Completed+s.Completed, sum.Dead+s.Dead, sum.Cancelled+s.Cancelled
	}
	return sum
}

// Ended returns how many jobs are in a final state.
func (p *Progress) Ended() int64 {
	sum := p.Counts()
	return sum.Completed + sum.Dead + sum.Cancelled
}

// Done returns the share of a demo's jobs that are in a final state, from 0 to 1.
func (p *Progress) Done() float64 { return float64(p.Ended()) / float64(max(p.Jobs, 1)) }

// showProgress looks at the run, and shows what it sees. It reports whether a demo's jobs have ended.
func (r *run) showProgress(ctx context.Context, stage string) (ended bool, err error) {
	if r.Watch == nil && r.plan.follow == nil {
		return false, nil
	}
	p := Progress{Stage: stage, Interrupted: r.Interrupted, Elapsed: time.Since(r.Began)}
	p.Queues, _ = r.DB.Stats(ctx) // if the database is unreachable, the counts are not shown
	if r.plan.follow != nil {
		ended, err = r.plan.follow(ctx, &p)
	}
	switch {
	case ctx.Err() != nil: // the stage is over
		return false, nil
	case err != nil:
		return false, err
	}
	r.mu.Lock()
	p.Faults = maps.Clone(r.counts)
	r.mu.Unlock()
	if r.Watch != nil {
		r.Watch(p)
	}
	return ended, nil
}
