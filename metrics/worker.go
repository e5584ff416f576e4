package metrics

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
)

// defaultConcurrency is what a worker's Concurrency of 0 means.
const defaultConcurrency = 10

// observe measures a worker. The worker runs its hooks one after the other, so they only count.
func (p *process) observe(w *dibs.Worker) {
	w.Store = p.observed(w.Store)
	p.places.Add(float64(cmp.Or(w.Concurrency, defaultConcurrency)))
	w.Use(p.handle)
	h := w.Hooks // the hooks that the worker had before, which are called, too
	w.Hooks.Claimed = func(jobs []*dibs.RawJob, took time.Duration) {
		p.onClaimed(jobs)
		if h.Claimed != nil {
			h.Claimed(jobs, took)
		}
	}
	w.Hooks.Finished = func(a dibs.Attempt) {
		p.onFinished(a)
		if h.Finished != nil {
			h.Finished(a)
		}
	}
	w.Hooks.LeaseLost = func(job *dibs.RawJob, reason error) {
		p.onLeaseLost(job)
		if h.LeaseLost != nil {
			h.LeaseLost(job, reason)
		}
	}
}

// handle is middleware for a worker: it counts the handlers that are running.
func (p *process) handle(next dibs.Handler) dibs.Handler {
	return func(ctx context.Context, job *dibs.RawJob) error {
		p.running.Inc()
		defer p.running.Dec()
		return next(ctx, job)
	}
}

func (p *process) onClaimed(jobs []*dibs.RawJob) { p.countClaimed(jobs, p.workedOf) }

// countClaimed counts claimed jobs, each in the series that of returns.
func (p *process) countClaimed(jobs []*dibs.RawJob, of func(queue, kind string) *series) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, job := range jobs {
		s := of(job.Queue, job.Kind)
		s.claimed.Inc()
		if !job.RunAt.IsZero() && !job.ClaimedAt.IsZero() { // rows of an adopted table may lack these times
			s.waits.Observe(max(0, job.ClaimedAt.Sub(job.RunAt).Seconds()))
		}
	}
}

func (p *process) onFinished(a dibs.Attempt) {
	outcome := string(a.Outcome.Ending)
	switch {
	case errors.Is(a.NotWritten, dibs.ErrLeaseLost):
		outcome = "lost"
	case a.NotWritten != nil:
		outcome = "unwritten"
	case outcome == "":
		outcome = "finished" // the handler has finished the job in a transaction
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.workedOf(a.Job.Queue, a.Job.Kind)
	p.ended(s, outcome).Inc()
	if a.Ran > 0 { // otherwise the handler was not started
		s.runs.Observe(a.Ran.Seconds())
	}
}

func (p *process) onLeaseLost(job *dibs.RawJob) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.workedOf(job.Queue, job.Kind).lost.Inc()
}

// enqueue is middleware for a store: it counts what is enqueued.
func (p *process) enqueue(next dibs.EnqueueFunc) dibs.EnqueueFunc {
	return func(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
		begin := time.Now()
		done, err := next(ctx, jobs)
		p.called("enqueue", begin, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range min(len(done), len(jobs)) {
			if !done[i].Existing {
				p.enqueuedOf(cmp.Or(jobs[i].Queue, dibs.DefaultQueue), jobs[i].Kind).enqueued.Inc()
			}
		}
		return done, err
	}
}
