package rowstore

import (
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// links says how a job is linked to others.
type links struct {
	followed bool // others may come after it
	inFlow   bool // it may come after others
}

// edge is a row of the table of edges, as add_edges.sql writes it.
type edge struct {
	Child  int64     `json:"child"`
	Parent int64     `json:"parent"`
	Need   dibs.Need `json:"need"`
}

// markedJob is a new job of a flow, as mark_flow.sql marks it.
type markedJob struct {
	ID       int64 `json:"id"`
	Followed bool  `json:"followed"`
}

// link notes which of the new jobs come after which. These are at gate 5 until settleFlows has looked at the ends of
// the jobs that existed before.
// known are the jobs that existed before, and gets those that hold a key.
func (s *Session) link(rows []checks.Row, done []dibs.Enqueued, known map[int64]bool) error {
	if !slices.ContainsFunc(rows, func(r checks.Row) bool { return len(r.Edges) > 0 }) {
		return nil
	}
	if err := s.find(checks.Holders(rows, done), known); err != nil {
		return err
	}
	var edges []edge
	followed := make(map[int64]bool)
	for i := range rows {
		if done[i].Existing {
			continue // the job that holds the key keeps what it waits for
		}
		needs := checks.Needs(rows, done, i, func(id int64) bool { return !known[id] })
		for _, parent := range slices.Sorted(maps.Keys(needs)) {
			followed[parent] = true
			edges = append(edges, edge{done[i].ID, parent, needs[parent]})
		}
		if len(rows[i].Edges) > 0 && len(needs) == 0 {
			s.flows.children = append(s.flows.children, done[i].ID)
		}
	}
	var marks []markedJob
	for _, e := range done {
		if !e.Existing {
			marks = append(marks, markedJob{e.ID, followed[e.ID]})
		}
	}
	if len(marks) == 0 {
		return nil
	}
	laterRows(s, "mark_flow", marks, marks[0].ID)
	laterRows(s, "add_edges", edges)
	for parent := range known {
		if followed[parent] {
			s.flows.ended = append(s.flows.ended, parent)
		}
	}
	return nil
}

// knownParents are the jobs that new ones come after by id. It refuses a batch if one does not exist.
func (s *Session) knownParents(rows []checks.Row) (map[int64]bool, error) {
	known := make(map[int64]bool)
	if err := s.find(checks.ParentIDs(rows), known); err != nil {
		return nil, err
	}
	return known, checks.NoneMissing(rows, func(id int64) bool { return !known[id] })
}

// find adds to known those of the jobs that exist.
func (s *Session) find(ids []int64, known map[int64]bool) error {
	if len(ids) == 0 {
		return nil
	}
	ids, err := s.ids("parents", jsonIDs(ids))
	for _, id := range ids {
		known[id] = true
	}
	return err
}

// revived are the jobs that were cancelled because of some that are put back now, and the unique keys that they may hold
// again.
func (s *Session) revived(jobs []*endedJob) (all []*endedJob, keys []UniqueKey, err error) {
	requeued := make([]int64, len(jobs))
	for i, j := range jobs {
		requeued[i] = j.ID
	}
	ids, err := s.ids("revived", jsonIDs(requeued)) // not only of jobs that others come after: these may have been deleted
	if err != nil || len(ids) == 0 {
		return nil, nil, err
	}
	ids = slices.DeleteFunc(ids, func(id int64) bool {
		return slices.Contains(requeued, id)
	})
	if keys, err = s.lockKeysOf(ids); err != nil {
		return nil, nil, err
	}
	all, err = s.readEnded(ids, time.Time{})
	return all, keys, err
}

// reopenEdges has finished jobs that are put back wait again for those that they come after. It returns the ids of the
// jobs that wait.
func (s *Session) reopenEdges(jobs []*endedJob) (map[int64]bool, error) {
	var inFlow []int64
	for _, j := range jobs {
		if j.links.inFlow {
			inFlow = append(inFlow, j.ID)
		}
	}
	if len(inFlow) == 0 {
		return nil, nil
	}
	list := jsonIDs(inFlow)
	s.later("reopen_edges", list)
	ids, err := s.ids("still_waiting", list)
	waiting := make(map[int64]bool, len(ids))
	for _, id := range ids {
		waiting[id] = true
	}
	return waiting, err
}

// waitAgain has jobs that still wait for others wait again for those that were put back.
// If a job that they come after has ended, settleFlows looks at it.
func (s *Session) waitAgain(jobs []*endedJob, waiting map[int64]bool) error {
	linked := make([]int64, 0, len(jobs))
	for _, j := range jobs {
		if j.links.inFlow || j.links.followed {
			linked = append(linked, j.ID)
		}
	}
	if len(linked) == 0 {
		return s.err
	}
	s.later("wait_again", jsonIDs(linked))
	if len(waiting) == 0 {
		return s.err
	}
	ended, err := s.ids("ended_parents", jsonIDs(slices.Sorted(maps.Keys(waiting))))
	s.flows.ended = append(s.flows.ended, ended...)
	return err
}
