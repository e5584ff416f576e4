package torture

import (
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// recoveries measures how soon abandoned jobs start again if nothing holds them up: from the
// end of a lease to the next claim, by the database's clock alone. It leaves out extended
// leases, jobs of groups or of limited queues, and jobs that waited while the server was away,
// the queue was paused, or a better job was claimed.
type recoveries struct {
	clockAhead time.Duration     // how far the database's clock is ahead of the clients'
	limited    map[string]bool   // queues that had a limit or a rate at some time
	pauses     map[string][]span // each queue's pauses, on the clients' clock
	outages    []span            // times without a server, on the clients' clock
	claims     map[string][]*history.Job
	excluded   map[dibs.Lease]bool // leases that were extended, or whose jobs may have been finished
}

type span struct{ from, to time.Time }

// unhindered returns the times after which abandoned jobs started again if nothing held them
// up, shortest first.
func unhindered(e history.Evidence) []time.Duration {
	r := &recoveries{
		clockAhead: aheadOf(e.Calls), limited: map[string]bool{}, pauses: map[string][]span{},
		claims: map[string][]*history.Job{}, excluded: map[dibs.Lease]bool{},
	}
	for _, q := range e.Queues {
		r.limited[q.Name] = q.Concurrency > 0 || q.Rate.N > 0
	}
	ends := endsOf(e.Calls)
	for _, c := range e.Calls {
		r.readCall(c, fateOf(c, ends))
	}
	var times []time.Duration
	for queue, jobs := range r.claims {
		slices.SortFunc(jobs, func(a, b *history.Job) int { return a.ClaimedAt.Compare(b.ClaimedAt) })
		times = append(times, r.inQueue(queue, jobs)...)
	}
	slices.Sort(times)
	return times
}

// readCall notes the claims, extensions, finishes, limits, pauses and outages in a call.
func (r *recoveries) readCall(c *history.Call, fate history.Fate) {
	switch c.Verb {
	case history.Claim, history.Resume:
		for i := range c.Jobs {
			j := &c.Jobs[i]
			if c.Tx != "" || c.Verb == history.Resume { // a transaction may hold its jobs longer; a resume may come before the lease ends
				r.excluded[dibs.Lease{ID: j.ID, Token: j.Token}] = true
			}
			r.claims[c.Queue] = append(r.claims[c.Queue], j)
		}
	case history.Extend:
		for _, l := range c.Leases {
			r.excluded[l] = true
		}
	case history.Finish:
		for _, o := range c.Outcomes {
			if fate != history.Nothing && !slices.Contains(c.Refused, o.ID) {
				r.excluded[dibs.Lease{ID: o.ID, Token: o.Token}] = true
			}
		}
	case history.SetQueue:
		r.limited[c.Queue] = r.limited[c.Queue] || c.Settings.Concurrency != nil && *c.Settings.Concurrency > 0
		if p := c.Settings.Paused; p != nil {
			r.pause(c, *p)
		}
	case history.Fault:
		if c.Worker == "" && strings.HasPrefix(c.Text, "server") {
			r.outages = append(r.outages, span{c.Begin, c.End})
		}
	}
}

// pause notes when a queue may have been paused.
func (r *recoveries) pause(c *history.Call, on bool) {
	all := r.pauses[c.Queue]
	switch n := len(all); {
	case on && (n == 0 || !all[n-1].to.IsZero()):
		r.pauses[c.Queue] = append(all, span{from: c.Begin})
	case !on && c.Fate == history.Done && n > 0 && all[n-1].to.IsZero():
		all[n-1].to = c.End
	}
}

// inQueue returns the times of one queue, whose claims are in the order of time.
func (r *recoveries) inQueue(queue string, jobs []*history.Job) (times []time.Duration) {
	if r.limited[queue] {
		return nil
	}
	last := map[int64]*history.Job{}
	for i, j := range jobs {
		before := last[j.ID]
		last[j.ID] = j
		if before == nil || j.Group != "" || j.Attempt != before.Attempt+1 || r.excluded[dibs.Lease{ID: before.ID, Token: before.Token}] {
			continue
		}
		wait := span{before.LeaseUntil.Add(-r.clockAhead), j.ClaimedAt.Add(-r.clockAhead)}
		if wait.to.Before(wait.from) || wait.overlaps(r.pauses[queue]) || wait.overlaps(r.outages) || overtaken(jobs[:i], j, before.LeaseUntil) {
			continue
		}
		times = append(times, wait.to.Sub(wait.from))
	}
	return times
}

// overlaps reports whether a span overlaps one of others. One without an end still goes on.
func (s span) overlaps(others []span) bool {
	return slices.ContainsFunc(others, func(o span) bool {
		return o.from.Before(s.to) && (o.to.IsZero() || o.to.After(s.from))
	})
}

// overtaken reports whether a claim after since took a job that comes before j.
func overtaken(claims []*history.Job, j *history.Job, since time.Time) bool {
	for i := len(claims) - 1; i >= 0 && claims[i].ClaimedAt.After(since); i-- {
		c := claims[i]
		if c.Token != j.Token && (c.Priority < j.Priority || c.Priority == j.Priority && c.RunAt.Before(j.RunAt)) {
			return true
		}
	}
	return false
}
