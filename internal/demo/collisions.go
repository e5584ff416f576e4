package demo

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// until is when an attempt gave up its job at the earliest: when its handler
// returned or, if its worker was killed, when the lease that it had claimed ended.
func (j *judge) until(a *Attempt) time.Time {
	if !a.End.IsZero() && !j.held[lease(a)] {
		return a.End
	}
	end := a.LeaseUntil.Add(j.skew)
	for _, t := range []time.Time{a.Start, a.End} {
		if t.After(end) {
			end = t
		}
	}
	return end
}

// overlaps finds attempts that began while another attempt had the same job, or
// that carry a number that the job had already used.
func (j *judge) overlaps() (cases []string) {
	for id, attempts := range j.byJob {
		last := attempts[0] // the one that has the job for longest so far
		for i, a := range attempts[1:] {
			if free := j.until(last); a.Start.Before(free) {
				cases = append(cases, fmt.Sprintf("job %d: attempt %d (%s) began %v before attempt %d (%s) was over",
					id, a.Attempt, a.Worker, free.Sub(a.Start), last.Attempt, last.Worker))
			} else if before := attempts[i]; a.Attempt <= before.Attempt {
				cases = append(cases, fmt.Sprintf("job %d: attempt %d (%s) began after attempt %d (%s)",
					id, a.Attempt, a.Worker, before.Attempt, before.Worker))
			}
			if j.until(a).After(j.until(last)) {
				last = a
			}
		}
	}
	return cases
}

// edge is a beginning (+1) or an end (-1) of an attempt in a group.
type edge struct {
	at    time.Time
	step  int
	about *Attempt
}

// groups finds attempts that began while their group was full.
func (j *judge) groups() (cases []string) {
	edges := map[string][]edge{}
	for _, a := range j.History {
		if a.Group != "" {
			edges[a.Group] = append(edges[a.Group], edge{a.Start, 1, a}, edge{j.until(a), -1, a})
		}
	}
	for group, es := range edges {
		limit := cmp.Or(j.Plan.Limits[group], 1)
		// Of what happens in the same instant, ends come first.
		slices.SortFunc(es, func(x, y edge) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.step, y.step)) })
		running := 0
		for _, e := range es {
			running += e.step
			if e.step > 0 && running > limit {
				cases = append(cases, fmt.Sprintf("group %s: job %d (%s) began as number %d, the limit is %d",
					group, e.about.Job, e.about.Worker, running, limit))
			}
		}
	}
	return cases
}

// early finds attempts that were claimed before the run_at they had; both are the
// database's times.
func (j *judge) early() (cases []string) {
	for _, a := range j.History {
		if a.ClaimedAt.Before(a.RunAt) {
			cases = append(cases, fmt.Sprintf("job %d: attempt %d was claimed %v before its run_at",
				a.Job, a.Attempt, a.RunAt.Sub(a.ClaimedAt)))
		}
	}
	return cases
}
