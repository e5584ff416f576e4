package rowstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

// Programs in any language insert jobs into a table, the inbox, in transactions of their own. Once those have committed, the
// store enqueues the rows as it does all jobs, and deletes them in the same transaction. docs/design/0036-inbox.md says why.

const (
	maxInbox      = 500     // rows that one transaction takes
	maxInboxBytes = 4 << 20 // bytes of the payloads that it takes, unless the first one alone has more
)

// inbox is how far this process has come with the inbox.
type inbox struct {
	turn     chan struct{} // full while a call takes rows
	lookedAt time.Time
	passed   []int64 // rows that a call has passed over that had no time to look at all
}

// inboxRow is a row of the inbox, and what has become of it.
type inboxRow struct {
	id      int64
	job     dibs.NewJob
	done    dibs.Enqueued
	refused error // why the job was enqueued as a dead one
	taken   bool
}

// takeInbox enqueues what stands in the inbox, for a limited time, and reports whether there was anything. It does nothing if
// this process has looked less than every ago.
func (s *Store) takeInbox(ctx context.Context, every time.Duration) (found bool, err error) {
	if c := s.concurrent(); c == nil || !c.Inbox || s.ready(ctx) != nil { // the call itself says that it is not ready
		return false, nil
	}
	select {
	case s.inbox.turn <- struct{}{}:
	default:
		if every > 0 {
			return false, nil
		}
		found = true // another call is taking rows: wait for it
		select {
		case s.inbox.turn <- struct{}{}:
		case <-ctx.Done():
			return false, nil
		}
	}
	defer func() { <-s.inbox.turn }()
	ctx = s.nearUpkeep(ctx)
	began := time.Now()
	if began.Sub(s.inbox.lookedAt) < every {
		return false, nil
	}
	s.inbox.lookedAt = began
	for time.Since(began) < sweepFor {
		rows, err := s.takeSome(ctx, s.inbox.passed)
		if err != nil || len(rows) == 0 {
			s.inbox.passed = nil
			return found, err
		}
		found = true
		for _, r := range rows {
			switch {
			case !r.taken:
				s.inbox.passed = append(s.inbox.passed, r.id)
			case s.InboxTaken != nil:
				s.InboxTaken(r.id, r.done, r.refused)
			}
		}
	}
	return found, nil
}

// takeSome takes some rows but those of passed, in a transaction if there are any.
func (s *Store) takeSome(ctx context.Context, passed []int64) (rows []inboxRow, err error) {
	waiting := false
	err = s.read(ctx, "inbox_waiting", func(rows *sql.Rows) error { return rows.Scan(&waiting) }, jsonIDs(passed))
	if err != nil || !waiting {
		return nil, s.wrap("take the inbox", err)
	}
	err = s.write(ctx, "take the inbox", func(tx *Session) (err error) {
		rows, err = tx.takeInbox(passed)
		return err
	})
	return rows, err
}

// takeInbox takes the first rows but those of passed: none if another transaction takes rows. Only one at a time does, as jobs
// are enqueued in the order of their rows. It passes over rows whose jobs need what other transactions hold, such as a
// unique key.
func (s *Session) takeInbox(passed []int64) ([]inboxRow, error) {
	if got, err := s.turn(TurnInbox, "", false); err != nil || !got {
		return nil, err
	}
	rows, err := s.inboxRows(passed)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	err = s.enqueueInbox(rows)
	if errors.Is(err, dibs.ErrInvalid) || errors.Is(err, errAgain) {
		err = s.enqueueEach(rows)
	}
	if err != nil {
		return nil, err
	}
	var taken []int64
	for i := range rows {
		if rows[i].taken {
			taken = append(taken, rows[i].id)
		}
	}
	s.later("drop_inbox", jsonIDs(taken))
	return rows, s.err
}

func (s *Session) inboxRows(passed []int64) (all []inboxRow, err error) {
	err = s.each("inbox", func(rows *sql.Rows) error {
		var r inboxRow
		var payload string
		var metadata []byte
		var priority sql.NullInt64
		var uniqueFor, delayLimit int64
		j := &r.job
		err := rows.Scan(&r.id, &j.Queue, &j.Kind, &payload, &metadata, &priority, reads.Time(&j.RunAt), &j.MaxAttempts, &j.Group,
			&j.UniqueKey, reads.Text(&j.UniqueUntil), &uniqueFor, &j.UniqueWindow, reads.Text(&j.IfHeld), &delayLimit)
		j.Queue = cmp.Or(j.Queue, dibs.DefaultQueue)
		j.Kind = cmp.Or(j.Kind, j.Queue)
		j.Payload, j.Metadata = json.RawMessage(cmp.Or(payload, "null")), metadata
		j.UniqueFor, j.DelayLimit = checks.Micros(uniqueFor), checks.Micros(delayLimit)
		if priority.Valid {
			j.Priority = new(int(priority.Int64))
		}
		all = append(all, r)
		return err
	}, jsonIDs(passed), maxInbox, maxInboxBytes)
	return all, err
}

// enqueueEach enqueues the jobs of some rows one by one: those that are refused as dead ones, and none of those that need what
// others hold.
func (s *Session) enqueueEach(rows []inboxRow) error {
	for i := range rows {
		err := s.enqueueInbox(rows[i : i+1])
		if errors.Is(err, dibs.ErrInvalid) {
			err = s.refuse(&rows[i], err)
		}
		if err != nil && !errors.Is(err, errAgain) {
			return err
		}
	}
	return nil
}

// enqueueInbox enqueues the jobs of some rows: all or none.
func (s *Session) enqueueInbox(rows []inboxRow) error {
	return s.alone(func() error {
		jobs := make([]dibs.NewJob, len(rows))
		for i := range rows {
			jobs[i] = rows[i].job
		}
		checked, err := checkJobs(jobs)
		if err != nil {
			return err
		}
		done, err := s.enqueue(checked)
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i].done, rows[i].taken = done[i], true
		}
		return nil
	})
}

// refuse enqueues the job of a row as a dead one, whose error says what is wrong with it.
func (s *Session) refuse(r *inboxRow, why error) error {
	return s.alone(func() error {
		row, err := deadRow(r.job)
		if err != nil {
			return err
		}
		q, err := s.keepQueue(row.Queue)
		if err != nil {
			return err
		}
		done, err := s.insertRows([]checks.Row{row})
		if err != nil {
			return err
		}
		now := s.now()
		errs := []dibs.AttemptError{{RunAt: fromMicro(now), At: fromMicro(now), Error: "refused: " + strings.TrimPrefix(why.Error(), "jobs[0].")}}
		var all fates
		s.countLeaving(&liveJob{queue: row.Queue})
		s.count(row.Queue, func(t *tally) { t.died++ })
		s.end(fate{ID: done[0].ID, State: dibs.Dead, Errors: jsonText(errs)}, q, &all)
		s.writeFates(&all, now)
		r.done, r.refused, r.taken = done[0], why, true
		return s.err
	})
}

// deadRow keeps of a job what can be stored. A queue, kind or payload that cannot is replaced.
func deadRow(j dibs.NewJob) (checks.Row, error) {
	payload := j.Payload.(json.RawMessage)
	if checks.Name("queue", j.Queue) != nil {
		if j.Kind == j.Queue { // the error does not quote it, as a URL may hold a password
			j.Kind = ""
		}
		j.Queue = dibs.DefaultQueue
	}
	if checks.Name("kind", j.Kind) != nil {
		j.Kind = j.Queue
	}
	if !json.Valid(payload) {
		payload = json.RawMessage(jsonText(string(payload)))
	}
	rows, err := checkJobs([]dibs.NewJob{{Queue: j.Queue, Kind: j.Kind, Priority: j.Priority}})
	if err != nil {
		return checks.Row{}, err
	}
	rows[0].Payload = payload
	return rows[0], nil
}

// alone runs f under a savepoint, so that it changes nothing if it fails.
func (s *Session) alone(f func() error) error {
	_, err := s.apart(func(text string) error {
		_, err := s.conn.ExecContext(s.ctx, text)
		return err
	}, f)
	return err
}
