package history

import (
	"cmp"
	"slices"

	"github.com/dibs-queue/dibs"
)

// flowJob is what the judgement of flows needs to know of a job that comes after others, or before some.
type flowJob struct {
	id     int64
	life   bool // the records or the database at the end show the job
	edges  []edge
	hidden bool // it may come after more jobs than edges lists
	adds   []added
	final  *dibs.RawJob

	// When the job may first have ended so, and when it certainly has; never if not.
	completed, failed moment
	requeued          bool // a call may have requeued it
	mutable           *bool
	cascade           *int64 // when it may first have been cancelled because of others
}

// edge says what a job needs of another that it comes after.
type edge struct {
	parent int64
	need   dibs.Need
	// early says that the follower was enqueued in one call with the other. So it comes after what the other adds, too.
	early     bool
	inherited bool // the other was added by one that the job comes after
}

type moment struct{ lo, hi int64 }

// added are the jobs that one outcome of a job adds, or would add if it is not known to be accepted.
type added struct {
	ids     []int64
	certain bool
}

// gatherFlows finds the jobs that come after others, and what became of those.
func (j *judge) gatherFlows() {
	j.flows = make(map[int64]*flowJob)
	for i, c := range j.Calls {
		if c.Verb == Enqueue && j.spans[i].fate != Nothing {
			j.noteEdges(c.New)
		}
	}
	if len(j.flows) == 0 {
		return
	}
	for i, c := range j.Calls {
		if j.promiseOf(int32(i)) == 13 && j.spans[i].fate != Nothing {
			j.noteAdds(int32(i), j.flows[c.New[0].By])
		}
	}
	var l life
	for id, f := range j.flows {
		if n, ok := j.numbers[id]; ok {
			j.rebuild(int(n), &l)
			j.noteEnds(&l, f)
		}
	}
}

// noteAdds notes what an outcome adds that ends a job which comes before others.
func (j *judge) noteAdds(call int32, f *flowJob) {
	if f == nil {
		return
	}
	more := added{certain: j.spans[call].fate == Done}
	for i := range j.Calls[call].New {
		if id, ok := j.idOf(&j.Calls[call].New[i]); ok {
			more.ids = append(more.ids, id)
			j.flow(id)
		}
	}
	if more.certain { // It goes before the same outcome without an answer.
		f.adds = slices.Insert(f.adds, 0, more)
	} else {
		f.adds = append(f.adds, more)
	}
}

func (j *judge) flow(id int64) *flowJob {
	f := j.flows[id]
	if f == nil {
		f = &flowJob{id: id, completed: moment{never, never}, failed: moment{never, never}}
		j.flows[id] = f
	}
	return f
}

// idOf returns the id of a new job. An enqueue without an answer, or an outcome that adds a job, says none: there the key
// finds it.
func (j *judge) idOf(n *New) (int64, bool) {
	if n.ID != 0 {
		return n.ID, true
	}
	where, ok := j.seen[n.Key]
	return where.id, ok
}

// noteEdges notes what the jobs of one enqueue come after.
func (j *judge) noteEdges(jobs []New) {
	for at := range jobs {
		n := &jobs[at]
		id, ok := j.idOf(n)
		if len(n.After) == 0 || n.Existing || !ok {
			continue
		}
		f := j.flow(id)
		for _, d := range n.After {
			need := cmp.Or(d.On, dibs.NeedCompleted)
			if d.ID != 0 {
				f.edges = append(f.edges, edge{parent: d.ID, need: need})
				j.flow(d.ID)
				continue
			}
			for k := range jobs[:at] {
				if jobs[k].Ref != d.Ref {
					continue
				}
				parent, ok := j.idOf(&jobs[k])
				if !ok { // another job, which is not known, holds its unique key
					f.hidden = true
					continue
				}
				f.edges = append(f.edges, edge{parent: parent, need: need, early: !jobs[k].Existing})
				j.flow(parent)
			}
		}
	}
}

// noteEnds notes when and how the job may have ended by itself, and when it certainly did.
func (j *judge) noteEnds(l *life, f *flowJob) {
	f.life, f.final, f.requeued = true, l.final, l.mayBeRequeued(0, never)
	asked := l.mayHaveChanged(Cancel, 0, never)
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.rolledBack() {
			continue
		}
		for _, e := range a.finishes {
			state := a.finalState(j.outcomeOf(e))
			if j.outcome(e) > open || state == "" && !asked {
				continue
			}
			s, m := &j.spans[e.call], &f.failed
			if state == dibs.Completed {
				m = &f.completed
			}
			m.lo = min(m.lo, s.seenLo)
			if state != "" && j.outcome(e) == accepted {
				m.hi = min(m.hi, s.seenHi)
			}
		}
		if asked || a.Attempt-a.Excused >= a.MaxAttempts {
			f.failed.lo = min(f.failed.lo, a.leaseLo)
		}
	}
	for _, e := range l.changes {
		if s := &j.spans[e.call]; j.Calls[e.call].Verb == Cancel {
			f.failed.lo = min(f.failed.lo, s.lo)
		}
	}
	if !l.complete() { // a claim without an answer may have used the last attempt
		f.failed.lo = 0
	}
}

// unmet reports whether a job that has ended so can never give what the edge needs.
func (e *edge) unmet(state dibs.State) bool {
	return e.need != dibs.NeedEnded && (e.need == dibs.NeedCompleted) != (state == dibs.Completed)
}

// comesAfter lists the edges of a job: first its own, then those to jobs that others have added before it could start.
// Of the edges in maybe it is not known whether they were there.
func (j *judge) comesAfter(f *flowJob) (certain, maybe []edge) {
	type path struct {
		edge
		sure bool
	}
	var rest []path
	for _, e := range f.edges {
		rest = append(rest, path{e, true})
	}
	seen := make(map[int64]bool)
	for ; len(rest) > 0; rest = rest[1:] {
		e, sure := rest[0].edge, rest[0].sure
		if seen[e.parent] {
			continue
		}
		if seen[e.parent] = true; sure {
			certain = append(certain, e)
		} else {
			maybe = append(maybe, e)
		}
		p := j.flows[e.parent]
		if e.need == dibs.NeedFailed || p == nil {
			continue
		}
		for _, more := range p.adds {
			for _, id := range more.ids {
				rest = append(rest, path{edge{id, e.need, e.early, true}, sure && e.early && more.certain && !p.requeued})
			}
		}
	}
	return certain, maybe
}

// mayChangeAgain reports whether the way in which the job has ended may not have been its only one: it may have been
// requeued, or revived with the job because of which it was cancelled.
func (j *judge) mayChangeAgain(f *flowJob) bool {
	if f == nil || f.requeued || f.hidden {
		return true
	}
	if f.mutable == nil {
		f.mutable = new(bool)
		certain, maybe := j.comesAfter(f)
		for _, edges := range [][]edge{certain, maybe} {
			for i := range edges {
				*f.mutable = *f.mutable || j.mayChangeAgain(j.flows[edges[i].parent])
			}
		}
	}
	return *f.mutable
}

// metFrom is the earliest time at which the edge's need may have been met.
func (j *judge) metFrom(e *edge) int64 {
	p := j.flows[e.parent]
	if p == nil || !p.life || p.final == nil { // it may have been deleted
		return 0
	}
	from := int64(never)
	if e.need != dibs.NeedFailed {
		from = p.completed.lo
	}
	if e.need != dibs.NeedCompleted {
		from = min(from, p.failed.lo, j.cascadeFrom(p))
	}
	return from
}

// cascadeFrom is the earliest time at which the job may have been cancelled because of one that it comes after.
func (j *judge) cascadeFrom(f *flowJob) int64 {
	if f.cascade == nil {
		f.cascade = new(int64(never))
		if f.hidden {
			*f.cascade = 0
		}
		certain, maybe := j.comesAfter(f)
		for _, edges := range [][]edge{certain, maybe} {
			for _, e := range edges {
				switch e.need {
				case dibs.NeedCompleted:
					e.need = dibs.NeedFailed
				case dibs.NeedFailed:
					e.need = dibs.NeedCompleted
				default:
					continue
				}
				*f.cascade = min(*f.cascade, j.metFrom(&e))
			}
		}
	}
	return *f.cascade
}
