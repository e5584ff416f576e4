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
	maxSettle = 500
	// levelCost is how many edges take as long as the statements of a level with none.
	levelCost = 10
	// maxEndedRows is how many rows of ended_list one transaction reads.
	maxEndedRows = 100
)

// flows is what a call has found out about jobs that come after others, for settleFlows.
type flows struct {
	ended    []int64 // jobs of flows that have ended, and live ones that new jobs come after or that may wait for nothing
	children []int64 // jobs that may have nothing left to wait for
	left     bool    // rows of ended_list are left to later transactions
	moved    moved   // since the transaction began
}

// moved counts followers, and says whether rows of ended_list are left.
type moved struct {
	released, cancelled int64
	left                bool
}

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
	seen := make(map[int64]bool, len(ids))
	ids = slices.DeleteFunc(ids, func(id int64) bool {
		had := seen[id]
		seen[id] = true
		return had
	})
	for some := range slices.Chunk(ids, maxSettle) {
		s.later("add_ended", jsonIDs(some))
	}
	s.leave()
}

// leave notes that rows of ended_list are left.
func (s *Session) leave() { s.flows.left, s.flows.moved.left = true, true }

// settleEnded goes on, level by level, from the jobs that have ended to their followers, and further from those it cancels.
// It ends when it has looked at maxSettle edges. A job with more edges than that comes again after all others, so that
// those it is done with leave the list.
func (s *Session) settleEnded() error {
	f := &s.flows
	for room := maxSettle; len(f.ended)+len(f.children) > 0; room -= levelCost {
		if room <= 0 {
			s.leaveEnded(slices.Concat(f.ended, f.children))
			f.ended, f.children = nil, nil
			break
		}
		looked, left, err := s.settleLevel(distinct(take(&f.ended, room)), take(&f.children, room), room)
		if err != nil {
			return err
		}
		room -= looked
		f.ended = append(f.ended, left...)
	}
	return s.err
}

// take takes up to n ids from the front of a list.
func take(list *[]int64, n int) []int64 {
	n = min(n, len(*list))
	some := (*list)[:n:n]
	*list = (*list)[n:]
	return some
}

// settleLevel looks at up to room edges of jobs that have ended, and returns those of the jobs that may have more.
// What it cancels is added to flows.ended.
// Of jobs that live it notes that others come after them; those that wait are looked at like children.
func (s *Session) settleLevel(ids, children []int64, room int) (looked int, left []int64, err error) {
	ended, waiting, err := s.split(ids)
	if err != nil {
		return 0, nil, err
	}
	children = append(children, waiting...)
	var opened []followed
	seen := 0
	if len(ended) > 0 {
		if opened, seen, err = s.edges("open_edges", ended, room); err != nil {
			return 0, nil, err
		}
		s.closeEdges(opened, 0)
	}
	unmet := make(map[int64]int64)  // the jobs that can never start, and their causes
	settled := make(map[int64]bool) // jobs that are rightly kept for their followers, or gone
	for _, e := range opened {
		settled[e.parent] = e.kept || e.state == ""
		if cause := e.unmet(); cause == 0 {
			children = append(children, e.child)
		} else if _, has := unmet[e.child]; !has {
			unmet[e.child] = cause
			children = append(children, e.child)
		}
	}
	if err := s.moveFollowers(distinct(children), unmet); err != nil || len(ended) == 0 {
		return len(children), nil, err
	}
	over, closed, err := s.edges("child_edges", ended, room)
	if err != nil {
		return 0, nil, err
	}
	open, closed, err := s.edges("child_open", ended[:closed], room-len(over))
	if err != nil {
		return 0, nil, err
	}
	over = append(over, open...)
	s.closeEdges(over, 2)
	keep := slices.DeleteFunc(slices.Clone(ended), func(id int64) bool { return settled[id] })
	for _, e := range over {
		keep = append(keep, e.parent)
	}
	if len(keep) > 0 {
		s.later("keep_followed", jsonIDs(distinct(keep)))
	}
	s.later("drop_edges", jsonIDs(ended[:closed]))
	return max(len(opened), len(over)), ended[min(seen, closed):], s.err
}

// split tells jobs that have ended from live ones. Of these it notes that others come after them, and returns those that
// wait for others themselves. A job that ends meanwhile counts as ended, as nobody may have known that it is followed.
func (s *Session) split(ids []int64) (ended, waiting []int64, err error) {
	live, _, err := s.unended(ids)
	if len(live) > 0 && err == nil {
		s.later("follow", jsonIDs(live))
		if err = s.leaveLocked(live); err != nil {
			return nil, nil, err
		}
		live, waiting, err = s.unended(live)
	}
	return slices.DeleteFunc(ids, func(id int64) bool {
		_, lives := slices.BinarySearch(live, id)
		return lives
	}), waiting, err
}

// leaveLocked leaves to later transactions those of the jobs that do not know their followers, as others have locked them.
func (s *Session) leaveLocked(live []int64) error {
	if !s.concurrent() {
		return nil
	}
	locked, err := s.ids("unfollowed", jsonIDs(live))
	if len(locked) > 0 {
		s.leaveEnded(locked)
	}
	return err
}

// unended finds the jobs that live, and those of them that wait for others. The ids must be in order.
func (s *Session) unended(ids []int64) (live, waiting []int64, err error) {
	if len(ids) == 0 {
		return nil, nil, nil
	}
	err = s.each("unended", func(rows *sql.Rows) error {
		var id int64
		var waits bool
		err := rows.Scan(&id, &waits)
		if live = append(live, id); waits {
			waiting = append(waiting, id)
		}
		return err
	}, jsonIDs(ids))
	return live, waiting, err
}

// followed is an edge, with the end of the job that the other comes after.
type followed struct {
	child, parent int64
	need          dibs.Need
	state         dibs.State // empty: the job is gone
	cause         int64      // the job because of which it was cancelled
	kept          bool       // it is kept for those that come after it
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

// edges reads up to n edges of jobs, those of the first jobs first. done is how many of the jobs have no more.
func (s *Session) edges(statement string, ids []int64, n int) (all []followed, done int, err error) {
	full := statement == "open_edges"
	err = s.each(statement, func(rows *sql.Rows) error {
		var e followed
		to := []any{&e.child, &e.parent}
		if full {
			to = append(to, reads.Text(&e.need), reads.Text(&e.state), reads.Number(&e.cause), &e.kept)
		}
		err := rows.Scan(to...)
		all = append(all, e)
		return err
	}, jsonIDs(ids), n+1)
	if len(all) <= n {
		return all, len(ids), err
	}
	next := all[n].child
	if full {
		next = all[n].parent
	}
	return all[:n], slices.Index(ids, next), err
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
		if err := r.Scan(&id, reads.Text(&list)); err != nil || len(ids) >= maxSettle {
			more = true
			return err
		}
		var some []int64
		_ = json.Unmarshal([]byte(list), &some) // ids that SQL by hand has broken name no job
		rows, ids = append(rows, id), append(ids, some...)
		return nil
	}, maxEndedRows)
	if err != nil || len(rows) == 0 {
		return err
	}
	s.later("drop_ended", jsonIDs(rows))
	s.flows.ended = ids
	if err := s.settleEnded(); err != nil {
		return err
	}
	if more || len(rows) == maxEndedRows {
		s.leave()
	}
	return s.settle()
}

// NoteSettled counts what the transaction of a session has done with followers, and has what it has left settled. It is
// called after the commit.
func (s *Store) NoteSettled(tx *Session) {
	s.released.Add(tx.flows.moved.released)
	s.cancelled.Add(tx.flows.moved.cancelled)
	if tx.flows.moved.left && s.concurrent() == nil && s.leaving.Add(1) == 1 {
		s.closing.Lock()
		defer s.closing.Unlock()
		if s.closed.Err() == nil {
			s.beside.Go(s.settleBeside)
		}
	}
	tx.flows.moved = moved{}
}

// settleBeside looks at the jobs that calls have left, beside other calls. Each step is a transaction of its own.
// NoteSettled notes if it leaves more. If a step fails, or the store is closed, the next sweep of the file goes on.
func (s *Store) settleBeside() {
	for {
		n := s.leaving.Load()
		err := s.engine.Write(s.closed, (*Session).settleList)
		if s.leaving.CompareAndSwap(n, 0) || err != nil {
			s.leaving.Store(0)
			return
		}
	}
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
