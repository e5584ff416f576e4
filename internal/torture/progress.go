package torture

import (
	"context"
	"maps"
	"time"

	"github.com/dibs-queue/dibs"
)

// Progress is how far a run has come.
type Progress struct {
	Stage string // running, draining or judging
	// Interrupted: the faults were ended early.
	Interrupted bool
	Elapsed     time.Duration
	Faults      map[string]int // so far, by name
	Queues      []dibs.QueueStats
}

func (r *run) watch(ctx context.Context, stage string) {
	if r.Watch == nil {
		return
	}
	p := Progress{Stage: stage, Interrupted: r.Interrupted, Elapsed: time.Since(r.Began)}
	p.Queues, _ = r.DB.Stats(ctx) // the database may be away: then there is nothing to show
	if r.Adopted != nil {
		for i := range p.Queues { // there is one
			p.Queues[i].Completed = r.Adopted.ended(ctx)
		}
	}
	if ctx.Err() != nil {
		return // the stage has ended meanwhile
	}
	r.mu.Lock()
	p.Faults = maps.Clone(r.counts)
	r.mu.Unlock()
	r.Watch(p)
}
