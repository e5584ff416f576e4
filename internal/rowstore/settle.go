package rowstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/reads"
)

const (
	// maxSettle is how many edges one transaction looks at. It leaves the rest to later ones, so that nobody waits
	// long for it.
	maxSettle = 5_000
	// maxEndedRows is how many rows of ended_list one transaction reads.
	maxEndedRows = 100
)

// flows is what a call has found out about jobs that come after others, for settleFlows.
type flows struct {
	ended    []int64 // jobs of flows that have ended, and jobs that new ones come after, whether or not they have ended
	children []int64 // jobs that may have nothing left to wait for
	left     bool    // rows of ended_list are left to later transactions
	moved    moved   // since the transaction began
}

// moved counts followers.
type moved struct{ released, cancelled int64 }

// noteEnd notes that a job has ended, if others may come after it, or it after others.
func (s *Session) noteEnd(id int64, l links) {
	if l.followed || l.inFlow {
		s.flows.ended = append(s.flows.ended, id)
	}
}

// settleFlows looks at the jobs of flows that have ended in this call.
// It releases the jobs that have waited for them, and cancels those that can never start.
// If others write at the same time, this transaction cannot see what they end, so another, later one does it.
func (s *Session) settleFlows() error {
	if len(s.flows.ended)+len(s.flows.children) == 0 {
		return nil
	}
	if s.concurrent() {
		s.leaveEnded(slices.Concat(s.flows.ended, s.flows.children))
		s.flows.ended, s.flows.children = nil, nil
		return s.err
	}
	return s.settleEnded()
}

// leaveEnded leaves jobs to later transactions.
func (s *Session) leaveEnded(ids []int64) {
	s.later("add_ended", jsonIDs(distinct(ids)))
	s.flows.left = true
	if s.upkeep != nil {
		s.upkeep.endedLeft = true
	}
}

// settleEnded goes on, level by level, from the jobs that have ended to their followers, and to those of the followers
// that it cancels, until it has looked at maxSettle edges.
func (s *Session) settleEnded() error {
	for room := maxSettle; ; {
		ended, children := distinct(s.flows.ended), s.flows.children
		s.flows.ended, s.flows.children = nil, nil
		switch {
		case len(ended)+len(children) == 0:
			return s.err
		case room <= 0:
			s.leaveEnded(append(ended, children...))
			return s.err
		}
		looked, err := s.settleLevel(ended, children, room)
		if err != nil {
			return err
		}
		if room -= looked; room <= 0 { // some of their edges may be left
			s.flows.ended = append(s.flows.ended, ended...)
		}
	}
}

// settleLevel looks at up to room edges of jobs that have ended. What it cancels is added to flows.ended.
func (s *Session) settleLevel(ended, children []int64, room int) (looked int, err error) {
	list := jsonIDs(ended)
	var opened, over []followed
	if len(ended) > 0 {
		s.later("follow", list)
		if opened, err = s.edges("open_edges", list, room); err != nil {
			return 0, err
		}
		s.closeEdges(opened, 0)
	}
	unmet := make(map[int64]int64) // the jobs that can never start, and their causes
	for _, e := range opened {
		if cause := e.unmet(); cause == 0 {
			children = append(children, e.child)
		} else if _, has := unmet[e.child]; !has {
			unmet[e.child] = cause
			children = append(children, e.child)
		}
	}
	if err := s.moveFollowers(distinct(children), unmet); err != nil || len(ended) == 0 {
		return len(opened), err
	}
	if over, err = s.edges("child_edges", list, room); err != nil {
		return 0, err
	}
	s.closeEdges(over, 2)
	kept := ended
	for _, e := range over {
		kept = append(kept, e.parent)
	}
	s.later("keep_followed", jsonIDs(distinct(kept)))
	s.later("drop_edges", list)
	return max(len(opened), len(over)), s.err
}

// followed is an edge, with the end of the job that the other comes after.
type followed struct {
	child, parent int64
	need          dibs.Need
	state         dibs.State // empty: the job is gone
	cause         int64      // the job because of which it was cancelled
}

// unmet returns the job because of which the follower can never start, or 0 if the edge's need is met. A job that is
// gone, deleted by hand, meets none.
func (e *followed) unmet() (cause int64) {
	switch {
	case e.state == "":
	case e.need == dibs.NeedEnded, (e.need == dibs.NeedCompleted) == (e.state == dibs.Completed):
		return 0
	}
	return cmp.Or(e.cause, e.parent)
}

// edges reads up to n edges of jobs, those of the first jobs first.
func (s *Session) edges(statement, ids string, n int) (all []followed, err error) {
	full := statement == "open_edges"
	err = s.each(statement, func(rows *sql.Rows) error {
		var e followed
		to := []any{&e.child, &e.parent}
		if full {
			to = append(to, reads.Text(&e.need), reads.Text(&e.state), reads.Number(&e.cause))
		}
		err := rows.Scan(to...)
		all = append(all, e)
		return err
	}, ids, n)
	return all, err
}

// closeEdges moves edges to another stage.
func (s *Session) closeEdges(edges []followed, stage int) {
	pairs := make([][2]int64, len(edges))
	for i, e := range edges {
		pairs[i] = [2]int64{e.child, e.parent}
	}
	laterRows(s, "close_edges", pairs, stage)
}

// moveFollowers cancels those of the jobs that can never start, and releases those that wait for nothing any more.
func (s *Session) moveFollowers(ids []int64, unmet map[int64]int64) error {
	if len(ids) == 0 {
		return nil
	}
	jobs, err := s.readLive(ids...)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j *liveJob) bool { return j.Gate != gateAfter })
	var all fates
	var rest []int64
	for _, j := range jobs {
		cause := unmet[j.ID]
		if cause == 0 {
			rest = append(rest, j.ID)
			continue
		}
		q, err := s.ensureQueue(j.queue) // makes the queue again if somebody has deleted it
		if err != nil {
			return err
		}
		s.count(j.queue, func(t *tally) { t.blocked-- })
		s.end(fate{ID: j.ID, State: dibs.Cancelled, Cause: cause, links: j.links, stepped: j.stepped}, q, &all)
	}
	s.flows.moved.cancelled += int64(len(jobs) - len(rest))
	s.writeFates(&all, s.now())
	waiting, err := s.ids("still_waiting", jsonIDs(rest))
	if err != nil {
		return err
	}
	s.release(slices.DeleteFunc(jobs, func(j *liveJob) bool {
		_, waits := slices.BinarySearch(waiting, j.ID)
		return waits || unmet[j.ID] != 0
	}))
	return s.err
}

// release lets jobs start that wait for others no more, at their run_at or now.
func (s *Session) release(jobs []*liveJob) {
	now := s.now()
	s.flows.moved.released += int64(len(jobs))
	for _, j := range jobs {
		s.count(j.queue, func(t *tally) { t.blocked-- })
		j.RunAt = max(j.RunAt, now)
		j.Gate = firstGate(j.group, j.RunAt, now)
		s.countArrival(j.queue, j.group, j.Gate)
	}
	laterRows(s, "edit", jobs)
}

// settleList looks at jobs that earlier transactions have left.
func (s *Session) settleList() error {
	if got, err := s.turn(TurnFlows, "", false); err != nil || !got {
		return err
	}
	var rows, ids []int64
	more := false
	err := s.each("ended_list", func(r *sql.Rows) error {
		var id int64
		var list string
		if err := r.Scan(&id, reads.Text(&list)); err != nil || len(ids) > maxSettle {
			more = true
			return err
		}
		var some []int64
		_ = json.Unmarshal([]byte(list), &some) // ids that SQL by hand has broken name no job
		rows, ids = append(rows, id), append(ids, some...)
		return nil
	}, maxEndedRows)
	if s.upkeep != nil {
		s.upkeep.endedLeft = false
	}
	if err != nil || len(rows) == 0 {
		return err
	}
	s.later("drop_ended", jsonIDs(rows))
	s.flows.ended, s.flows.children = ids, slices.Clone(ids)
	if err := s.settleEnded(); err != nil {
		return err
	}
	s.flows.left = s.flows.left || more || len(rows) == maxEndedRows
	return s.settle()
}

// NoteSettled counts what the transaction of a session has done with followers. It is called after the commit.
func (s *Store) NoteSettled(tx *Session) {
	s.released.Add(tx.flows.moved.released)
	s.cancelled.Add(tx.flows.moved.cancelled)
	tx.flows.moved = moved{}
}

// Figures reports by name what the store has counted since it was opened.
func (s *Store) Figures(report func(name string, value float64)) {
	if s != nil && report != nil {
		report("followers_released", float64(s.released.Load()))
		report("followers_cancelled", float64(s.cancelled.Load()))
	}
}

// settleLeft looks at the jobs that a call has left, in transactions of its own, for a while. If it fails, the next sweep
// goes on.
func (s *Store) settleLeft(ctx context.Context) {
	for began, left := time.Now(), true; left && time.Since(began) < sweepFor; {
		err := s.engine.Write(ctx, func(tx *Session) error {
			err := tx.settleList()
			left = tx.flows.left
			return err
		})
		if err != nil {
			return
		}
	}
}
