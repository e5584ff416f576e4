package torture

import (
	"context"
	"maps"
	"time"

	"github.com/dibs-queue/dibs"
)

// Progress says how far a run has come.
type Progress struct {
	Stage string // running, draining or judging
	// Interrupted says that the faults ended early.
	Interrupted bool
	Elapsed     time.Duration
	Faults      map[string]int // how many there were so far, by name
	Queues      []dibs.QueueStats
}

func (r *run) showProgress(ctx context.Context, stage string) {
	if r.Watch == nil {
		return
	}
	p := Progress{Stage: stage, Interrupted: r.Interrupted, Elapsed: time.Since(r.Began)}
	p.Queues, _ = r.DB.Stats(ctx) // if the database is unreachable, the counts are not shown
	if r.Adopted != nil {
		for i := range p.Queues { // an adopted table has one queue
			p.Queues[i].Completed = r.Adopted.ended(ctx)
		}
	}
	if ctx.Err() != nil {
		return // the stage is over
	}
	r.mu.Lock()
	p.Faults = maps.Clone(r.counts)
	r.mu.Unlock()
	r.Watch(p)
}
