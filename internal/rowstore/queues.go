package rowstore

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/settings"
)

// namesOf returns the name of a queue, or of all queues if it is empty.
func (s *Store) namesOf(ctx context.Context, queue string) ([]string, error) {
	if queue != "" {
		return []string{queue}, nil
	}
	queues, err := s.Reads().Queues(ctx)
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Name
	}
	return names, err
}

// ensureQueue returns a queue's settings, and makes the queue if it does not exist.
func (s *Session) ensureQueue(name string) (*queue, error) {
	q, err := s.queue(name)
	if err != nil || q != nil {
		return q, err
	}
	if s.concurrent() {
		if err := s.needTurn(TurnMake, name, false); err != nil {
			return nil, err
		}
		delete(s.queues, name) // another transaction may have made it before this one had the turn
		if q, err = s.queue(name); err != nil || q != nil {
			return q, err
		}
	}
	s.later("add_queue", reads.Stored(dibs.DefaultSettings(name), s.now())...)
	delete(s.queues, name)
	if q, err = s.queue(name); err == nil && q == nil { // another transaction has made the queue, and deleted it again
		err = errAgain
	}
	return q, err
}

// putQueue stores settings in place of those that the transaction has read. It fails with settings.ErrStale if the
// database has others by now.
func (s *Session) putQueue(q dibs.Queue) error {
	statement, first := "add_queue", s.now()
	if old := s.queues[q.Name]; old != nil {
		statement, first = "set_queue", old.version
	} else if err := s.needTurn(TurnMake, q.Name, false); err != nil {
		return err
	}
	n, err := s.exec(statement, reads.Stored(q, first)...)
	delete(s.queues, q.Name)
	return settings.OrStale(n == 1, err)
}

// ChangeQueue has f change a queue's settings: see dibs.Database.
func (s *Store) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	ctx = s.nearQueue(ctx, name)
	read := func() (dibs.Queue, error) { return s.settings(ctx, name) }
	return settings.ChangeQueue(name, f, read, func(before, after dibs.Queue) error {
		return s.write(ctx, "change queue", func(tx *Session) error {
			now, err := tx.settings(name)
			if err := settings.OrStale(now == before, err); err != nil {
				return err
			}
			return tx.setQueue(before, after)
		})
	})
}

// settings are a queue's settings. If there is no such queue, they are the ones with which it would be made.
func (s *Store) settings(ctx context.Context, name string) (dibs.Queue, error) {
	q := dibs.DefaultSettings(name)
	err := s.read(ctx, "queue", func(rows *sql.Rows) error {
		return rows.Scan(reads.Queue(&q, new(bool), new(int64))...)
	}, name)
	return q, s.wrap("change queue", err)
}

// settings are a queue's settings, read so that putQueue can replace them. If there is no such queue, they are the ones
// with which it would be made.
func (s *Session) settings(name string) (dibs.Queue, error) {
	if s.concurrent() {
		delete(s.queues, name)
	}
	q, err := s.queue(name)
	if err != nil || q == nil {
		return dibs.DefaultSettings(name), err
	}
	return q.Queue, nil
}

func (s *Session) setQueue(before, after dibs.Queue) error {
	if err := s.putQueue(after); err != nil {
		return err
	}
	s.woken[after.Name] = true
	if s.certified() && !isLimited(before) && isLimited(after) { // claims under way on other nodes may not know the limit
		if err := s.dialect.Concurrent.Bar(s, after.Name); err != nil {
			return err
		}
	}
	if before.Concurrency == 0 && after.Concurrency > 0 && !s.counted() {
		if s.concurrent() {
			s.later("limit_set", after.Name)
		} else {
			s.later("count_running", after.Name)
		}
	}
	fair := after.Order == dibs.Fair && before.Order != dibs.Fair
	if before.GroupLimit == after.GroupLimit && before.GroupRate == after.GroupRate && before.Strict == after.Strict && !fair {
		return nil
	}
	if fair {
		s.later("forget_turns", after.Name, after.Strict)
	}
	s.later("set_group_rates", after.Name)
	if before.Strict && !after.Strict && !s.concurrent() { // otherwise an admission does this
		s.later("unhold", after.Name, s.now())
	}
	if err := s.touchAll(after.Name); err != nil {
		return err
	}
	return s.settle()
}
