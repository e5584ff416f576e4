package history

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// place is one job of one call: the at-th entry of its New, Jobs, Outcomes, Leases, IDs or
// Changed, depending on the verb.
type place struct{ call, at int32 }

// event is the part of a call, and of its answer, that concerns one job.
type event struct {
	place
	refused bool
}

// index sorts the events by job, so that a job's events are found without a search.
type index struct {
	*Evidence
	clock clock
	spans []span
	txs   map[string]*Call // the commit or rollback of each transaction
	grace int64

	ids     []int64 // the ids of all jobs, in the order of their first events
	numbers map[int64]int32
	first   []int32 // where each job's events begin in events, and where the last job's end
	events  []event

	news   map[string]place   // the enqueue of each key
	adds   map[addition]int32 // the enqueue that stands for what an outcome adds
	final  map[int64]*dibs.RawJob
	lanes  map[string]*lane
	faults []span // when the server was away
	pruned bool   // somebody deleted finished jobs
}

func newIndex(e *Evidence) *index {
	calls, adds := separateAdds(e.Calls)
	e.Calls = calls
	ix := &index{
		Evidence: e, adds: adds, clock: clockOf(calls), grace: (limbo + e.Slack).Microseconds(),
		numbers: make(map[int64]int32, len(e.Final)),
		news:    make(map[string]place, len(e.Final)), final: make(map[int64]*dibs.RawJob, len(e.Final)),
	}
	ix.spans, ix.txs = spansOf(e.Calls, ix.grace)
	ix.sortEvents()
	for _, j := range e.Final {
		ix.job(j.ID)
		ix.final[j.ID] = j
	}
	for len(ix.first) <= len(ix.ids) {
		ix.first = append(ix.first, int32(len(ix.events)))
	}
	ix.makeLanes()
	return ix
}

func (ix *index) job(id int64) int32 {
	n, ok := ix.numbers[id]
	if !ok {
		n = int32(len(ix.ids))
		ix.numbers[id] = n
		ix.ids = append(ix.ids, id)
	}
	return n
}

// sortEvents groups the events by job, in the order of their calls' Begin. It counts
// them first and then puts them into one slice.
func (ix *index) sortEvents() {
	var counts []int32
	ix.eachEvent(func(job int32, _ event) {
		for int(job) >= len(counts) {
			counts = append(counts, 0)
		}
		counts[job]++
	})
	ix.first = make([]int32, len(counts)+1)
	for i, n := range counts {
		ix.first[i+1] = ix.first[i] + n
	}
	next := append([]int32(nil), ix.first...)
	ix.events = make([]event, ix.first[len(counts)])
	ix.eachEvent(func(job int32, e event) {
		ix.events[next[job]] = e
		next[job]++
	})
}

func (ix *index) eachEvent(f func(job int32, e event)) {
	for i, c := range ix.Calls {
		emit := func(id int64, at int, refused bool) {
			f(ix.job(id), event{place{int32(i), int32(at)}, refused})
		}
		refused := func(int64) bool { return false }
		if len(c.Refused) > 0 {
			lost := make(map[int64]bool, len(c.Refused))
			for _, id := range c.Refused {
				lost[id] = true
			}
			refused = func(id int64) bool { return lost[id] }
		}
		switch c.Verb {
		case Enqueue:
			for at := range c.New {
				n := &c.New[at]
				if n.Existing {
					continue
				}
				// The same outcome may be sent again if it had no answer, with the same jobs to add.
				if old, ok := ix.news[n.Key]; !ok || ix.spans[i].fate == Done || ix.spans[old.call].fate == Nothing {
					ix.news[n.Key] = place{int32(i), int32(at)}
				}
				if n.ID != 0 && ix.spans[i].fate != Nothing {
					emit(n.ID, at, false)
				}
			}
		case Claim, Resume:
			for at := range c.Jobs {
				emit(c.Jobs[at].ID, at, false)
			}
		case Finish:
			for at := range c.Outcomes {
				emit(c.Outcomes[at].ID, at, refused(c.Outcomes[at].ID))
			}
		case Extend, PutStep, Steps:
			for at := range c.Leases {
				emit(c.Leases[at].ID, at, refused(c.Leases[at].ID))
			}
		case Cancel, Requeue, Edit, Ended:
			for at, id := range c.touched() {
				emit(id, at, false)
			}
		}
	}
}

// touched lists the jobs that an operator or another program changed or may have changed.
func (c *Call) touched() []int64 {
	switch c.Fate {
	case Done:
		return c.Changed
	case Unknown:
		return c.IDs
	default:
		return nil
	}
}

// slack returns Slack in microseconds.
func (ix *index) slack() int64 { return ix.Slack.Microseconds() }

// limbo is the time after the end of a lease within which promise 4 starts the job again.
const limbo = 2 * time.Second
