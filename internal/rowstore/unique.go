package rowstore

import (
	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// applyToHolder looks for a job that holds the key of a new job, and does with it what the new job's
// IfHeld says. The answer stays empty if the key is free.
func (s *Session) applyToHolder(n *newJob, answer *dibs.Enqueued) error {
	found, err := s.one("holder", []any{n.queue, n.uniqueKey}, &answer.ID)
	held := found
	if !found && err == nil && !n.row.Period.IsZero() {
		found, err = s.one("window", []any{n.queue, n.uniqueKey, n.createdAt}, &answer.ID)
	}
	if answer.Existing = found; !found || err != nil || n.row.IfHeld == dibs.HeldKeep {
		return err
	}
	jobs, err := s.readLive(answer.ID)
	if err == nil && held && (len(jobs) == 0 || jobs[0].running) {
		err = s.stillHolds(n, answer.ID)
	}
	if err != nil || len(jobs) == 0 || jobs[0].running {
		return err
	}
	j := jobs[0]
	h := checks.Holder{ID: j.ID, CreatedAt: j.created, RunAt: fromMicro(j.RunAt)}
	*answer = h.Meet(n.row, fromMicro(n.createdAt))
	return s.changeHolder(j, &h, n)
}

// stillHolds fails if a job that does not wait holds the key no more: since it was found, another transaction has claimed or
// ended it, so it is not what the new job has met.
func (s *Session) stillHolds(n *newJob, id int64) error {
	if !s.concurrent() {
		return nil
	}
	var now int64
	if _, err := s.one("holder", []any{n.queue, n.uniqueKey}, &now); err != nil || now == id {
		return err
	}
	return errAgain
}

// changeHolder stores a waiting holder that was replaced or pushed.
func (s *Session) changeHolder(j *liveJob, h *checks.Holder, n *newJob) error {
	runAt := h.RunAt.UnixMicro()
	if h.New == nil {
		if runAt == j.RunAt {
			return nil
		}
		if err := s.move(j, runAt, j.group); err != nil {
			return err
		}
		s.later("push", j.ID, runAt, j.Gate)
		return nil
	}
	if err := s.move(j, runAt, n.group); err != nil {
		return err
	}
	s.later("replace", j.ID, n.kind, n.priority, runAt, j.Gate, n.maxAttempts, null(n.group), null(n.metadata), n.payload)
	if j.stepped { // they are those of the old job
		s.later("drop_steps", jsonIDs([]int64{j.ID}))
	}
	return nil
}

// setWindow makes a new job hold its key until its period ends.
func (s *Session) setWindow(n *newJob, id int64) {
	until := n.row.Period.End(fromMicro(n.createdAt))
	s.later("set_window", n.queue, n.uniqueKey, until.UnixMicro(), id)
}
