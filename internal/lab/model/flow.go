package model

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// edge says that a job comes after another.
type edge struct {
	parent int64
	need   dibs.Need
}

// open reports whether a job cannot start yet because of an edge, and because of which job it never can. It does not wait
// for a job that was deleted.
func (m *Model) open(e edge) (open bool, unmet int64) {
	p := m.jobs[e.parent]
	switch {
	case p == nil:
		return false, 0
	case !p.State.Final():
		return true, 0
	case e.need == dibs.NeedEnded, (e.need == dibs.NeedCompleted) == (p.State == dibs.Completed):
		return false, 0
	}
	return true, cmp.Or(p.Cause, p.ID)
}

// waitsFor counts the jobs that a job comes after and that have not ended.
func (m *Model) waitsFor(j *job) (n int) {
	for _, e := range j.edges {
		if open, unmet := m.open(e); j.follows && open && unmet == 0 {
			n++
		}
	}
	return n
}

// settleFlows lets those jobs go on that have waited for others, and cancels those that can never start. Then it looks at
// those that have waited for these.
func (m *Model) settleFlows(apart bool) {
	for first := true; ; first = false {
		var free, unneeded []*job
		for _, j := range m.find(func(j *job) bool { return j.follows }) {
			waits := false
			j.Cause = 0
			for _, e := range j.edges {
				open, unmet := m.open(e)
				waits = waits || open
				j.Cause = cmp.Or(j.Cause, unmet)
			}
			switch {
			case j.Cause != 0:
				unneeded = append(unneeded, j)
			case !waits:
				free = append(free, j)
			}
		}
		if len(free)+len(unneeded) == 0 {
			return
		}
		if m.AtOnce || m.Lazy && first && apart { // it is a transaction of its own
			m.tick()
		}
		for _, j := range unneeded {
			m.end(j, dibs.Cancelled)
		}
		for _, j := range free {
			j.follows, j.RunAt = false, later(m.now, j.RunAt)
			m.wait(j)
		}
	}
}

// kept reports whether a job is kept because one that comes after it has not ended.
func (m *Model) kept(j *job) bool {
	return len(m.find(func(f *job) bool {
		return !f.State.Final() && slices.ContainsFunc(f.edges, func(e edge) bool { return e.parent == j.ID })
	})) > 0
}

// link has the new jobs of a call come after others.
func (m *Model) link(rows []checks.Row, done []dibs.Enqueued) {
	if !slices.ContainsFunc(rows, func(r checks.Row) bool { return len(r.Edges) > 0 }) {
		return
	}
	var flow int64
	for i, r := range rows {
		if done[i].Existing { // what it comes after has no meaning
			continue
		}
		j := m.jobs[done[i].ID]
		flow = cmp.Or(flow, j.ID)
		j.Flow, j.follows = flow, len(r.Edges) > 0
		for _, e := range r.Edges {
			parent := e.ID
			if parent == 0 {
				parent = done[e.Place].ID
			}
			j.comeAfter(parent, e.Need)
		}
		m.wait(j)
	}
}

// comeAfter adds an edge. One that asks only for an end says less than another from the same job.
func (j *job) comeAfter(parent int64, need dibs.Need) {
	i := slices.IndexFunc(j.edges, func(e edge) bool { return e.parent == parent })
	j.edges = slices.Clone(j.edges)
	switch {
	case i >= 0 && j.edges[i].need == dibs.NeedEnded:
		j.edges[i].need = need
	case i < 0:
		j.edges = append(j.edges, edge{parent, need})
		slices.SortFunc(j.edges, func(a, b edge) int { return cmp.Compare(a.parent, b.parent) })
	}
}

// add enqueues what the outcome of a completed job adds. What comes after the job comes after the new ones too.
func (m *Model) add(j *job, jobs []dibs.NewJob) {
	rows, err := checks.Jobs(jobs, func(string) (int, error) { return dibs.MaxPayloadLimit, nil })
	if err != nil {
		panic(err) // tests with a model add only good jobs
	}
	followers := m.find(func(f *job) bool { return len(f.edges) > 0 })
	above, all := map[int64]map[int64]bool{}, map[int64]bool{} // the older jobs that each added one comes after, and these together
	added := m.insert(rows)
	for _, e := range added {
		m.jobs[e.ID].Flow = cmp.Or(j.Flow, j.ID)
		above[e.ID] = map[int64]bool{}
		m.climb(e.ID, j.ID, above[e.ID])
		for _, sibling := range added {
			delete(above[e.ID], sibling.ID)
		}
		maps.Copy(all, above[e.ID])
	}
	for _, e := range added {
		for _, f := range followers {
			i := slices.IndexFunc(f.edges, func(e edge) bool { return e.parent == j.ID })
			if i >= 0 && f.edges[i].need != dibs.NeedFailed && (len(above[e.ID]) == 0 || !all[f.ID]) {
				f.comeAfter(e.ID, f.edges[i].need)
			}
		}
	}
}

// climb adds to above what a job comes after, at any distance, but for one job and what that comes after.
func (m *Model) climb(id, but int64, above map[int64]bool) {
	if m.jobs[id] == nil {
		return
	}
	for _, e := range m.jobs[id].edges {
		if e.parent != but && !above[e.parent] {
			above[e.parent] = true
			m.climb(e.parent, but, above)
		}
	}
}

// revived are the jobs that were cancelled because of some.
func (m *Model) revived(causes []*job) []*job {
	return m.find(func(j *job) bool {
		return j.State.Final() && slices.ContainsFunc(causes, func(c *job) bool { return c.ID == j.Cause })
	})
}

// waitsAgain reports whether a job that is requeued waits for others.
func (m *Model) waitsAgain(j *job) bool {
	return slices.ContainsFunc(j.edges, func(e edge) bool {
		open, _ := m.open(e)
		return open || !m.AtOnce && m.jobs[e.parent] != nil // it may have to wait for the next transaction
	})
}

// DeleteEnded deletes final jobs.
func (m *Model) DeleteEnded(ids []int64) (deleted []int64) {
	m.tick()
	for _, j := range m.named(ids) {
		if j.State.Final() && !m.kept(j) {
			deleted = append(deleted, j.ID)
		}
	}
	for _, id := range deleted {
		delete(m.jobs, id)
	}
	return deleted
}
