package interleave

import (
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs"
)

// Effects on jobs that come after others. Any call may have them, as a store may settle within it.
const (
	released effect = "released"
	unneeded effect = "cancelled because of another"
	revived  effect = "brought back"
)

// met reports whether the end of a job is what another needs of it.
func (e Edge) met(end dibs.State) bool {
	switch e.Need {
	case dibs.NeedEnded:
		return true
	case dibs.NeedFailed:
		return end != dibs.Completed
	}
	return end == dibs.Completed
}

// end returns how a job has ended, or "" if it is live.
func (s State) end(id int64) dibs.State {
	if _, live := s.Jobs[id]; live {
		return ""
	}
	if end := s.Final[id]; end != "" || !s.Forgets {
		return end
	}
	return dibs.Completed
}

// mayStart checks that all jobs that a job comes after have ended as it needs.
func (s State) mayStart(id int64) error {
	for _, e := range s.Edges[id] {
		if end := s.end(e.Parent); end == "" || !e.met(end) {
			return fmt.Errorf("job %d waits no more for job %d, which it needs %s, and which is %q", id, e.Parent, e.Need, end)
		}
	}
	return nil
}

// isUnneeded checks that a job has ended because of another.
func (s State) isUnneeded(id int64) error {
	for _, e := range s.Edges[id] {
		end, cause := s.end(e.Parent), s.Causes[e.Parent]
		if cause == 0 {
			cause = e.Parent
		}
		if end != "" && !e.met(end) && cause == s.Causes[id] {
			return nil
		}
	}
	return fmt.Errorf("job %d was cancelled because of job %d, after %+v", id, s.Causes[id], s.Edges[id])
}

// flows checks what a call did to jobs that come after others.
func (k *call) flows(old, now State) error {
	adds := 0
	for id, e := range k.effects {
		var err error
		switch {
		case e == unneeded:
			err = now.isUnneeded(id)
		case e == released, (e == requeued || e == enqueued) && !now.Jobs[id].Waits && now.end(id) == "":
			err = now.mayStart(id)
		case e == revived && (!contains(k.ids, old.Causes[id]) || !now.Jobs[id].Waits):
			err = fmt.Errorf("job %d, which job %d has ended, was brought back", id, old.Causes[id])
		}
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(k.outcomes, func(o dibs.Outcome) bool { return o.ID == id }); e == finished && i >= 0 {
			adds += len(k.outcomes[i].Add)
		}
	}
	if k.verb == "finish" {
		return k.added(old, now, adds)
	}
	for id, cause := range now.Causes {
		if k.effects[cause] == requeued && old.Causes[id] == cause {
			return fmt.Errorf("job %d was not brought back with job %d", id, cause)
		}
	}
	return nil
}

// added checks that a finish has enqueued as many jobs as the written outcomes add, and that what comes after those
// jobs comes after the new ones.
func (k *call) added(old, now State, adds int) error {
	for id, e := range k.effects {
		if e != enqueued {
			continue
		}
		adds--
		for child, edges := range old.Edges {
			follows := func(id int64) bool { return slices.ContainsFunc(edges, func(e Edge) bool { return e.Parent == id }) }
			if !slices.ContainsFunc(k.outcomes, func(o dibs.Outcome) bool { return len(o.Add) > 0 && follows(o.ID) }) {
				continue
			}
			if !slices.ContainsFunc(now.Edges[child], func(e Edge) bool { return e.Parent == id }) {
				return fmt.Errorf("job %d does not come after job %d, which was added by one that it comes after", child, id)
			}
		}
	}
	if adds != 0 {
		return fmt.Errorf("%d jobs that the written outcomes add were not enqueued", adds)
	}
	return nil
}

// allSettled checks that no job waits for others that have all ended. It is called after a sweep.
func (s State) allSettled() error {
	for id, j := range s.Jobs {
		if j.Waits && !slices.ContainsFunc(s.Edges[id], func(e Edge) bool { return s.end(e.Parent) == "" }) {
			return fmt.Errorf("limbo: job %d waits for others, all of which have ended: %+v", id, s.Edges[id])
		}
	}
	return nil
}
