package dibs

import (
	"slices"
	"time"
)

// A worker whose handlers are quick claims some jobs ahead, for places that will be free in a
// moment: otherwise its handlers wait for a round trip to the database after every few jobs.
const (
	aheadTime  = 10 * time.Millisecond  // the jobs claimed ahead are to be started within this time
	aheadLimit = 100 * time.Millisecond // jobs claimed ahead that have waited longer are given back
	maxAhead   = 500
	aheadBytes = 4 << 20 // the most bytes of payloads of all jobs claimed ahead, about
	paceWeight = 16      // runTime and payloadSize are averages over about the last so many jobs
)

// pace is what the worker has seen of its jobs: moving averages.
type pace struct {
	runTime     time.Duration // how long a handler runs; 0: none has returned yet
	payloadSize int
}

func (p *pace) ran(d time.Duration) {
	if p.runTime == 0 {
		p.runTime = d
	}
	p.runTime += (d - p.runTime) / paceWeight
	p.runTime = max(p.runTime, 1)
}

func (p *pace) claimed(job *RawJob) {
	if p.payloadSize == 0 {
		p.payloadSize = len(job.Payload)
	}
	p.payloadSize += (len(job.Payload) - p.payloadSize) / paceWeight
}

// ahead are jobs claimed ahead, in their order.
type ahead struct {
	jobs []*held
	pace pace
}

// aheadSize is how many jobs the worker may hold ahead: none unless outcomes can be written.
func (r *run) aheadSize() int {
	if r.ahead.pace.runTime == 0 || !r.writes.worked || r.writes.failures > 0 {
		return 0
	}
	n := int(int64(r.Concurrency) * int64(aheadTime) / int64(r.ahead.pace.runTime))
	return min(n, maxAhead, maxConcurrency-r.Concurrency, aheadBytes/max(r.ahead.pace.payloadSize, 1))
}

// startAhead starts jobs that were claimed ahead, in places that are free. If a handler takes
// unexpectedly long, or the worker stops, it gives them back for other workers.
func (r *run) startAhead(now time.Time) (next time.Time) {
	mayStart := r.shutdown.stage == working && !now.Before(r.claims.pausedUntil)
	for mayStart && len(r.ahead.jobs) > 0 && len(r.attempts.running) < r.Concurrency {
		h := r.ahead.jobs[0]
		r.ahead.jobs = r.ahead.jobs[1:]
		r.execute(h, r.handler(h.job.Kind))
	}
	if len(r.ahead.jobs) == 0 {
		return time.Time{}
	}
	at := r.ahead.jobs[0].start.Add(aheadLimit)
	if mayStart && now.Before(at) {
		return at
	}
	r.ahead.pace.runTime = max(r.ahead.pace.runTime, aheadLimit)
	for _, h := range r.ahead.jobs {
		r.giveBack(h)
	}
	r.ahead.jobs = nil
	return time.Time{}
}

// giveBack releases a job whose handler was not started.
func (r *run) giveBack(h *held) {
	h.outcome = h.lease.Release()
	r.write(h)
}

// isAhead reports whether a job was claimed ahead and has not been started.
func (r *run) isAhead(h *held) bool { return slices.Contains(r.ahead.jobs, h) }
