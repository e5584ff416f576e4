package sqlite

import (
	"database/sql"
	"time"
)

const (
	// A sweep looks every mendEvery for rows that SQL by hand has left in a state in which nobody
	// would ever claim or expire them: at mendBatch jobs, going through all of them in turn.
	mendEvery   = 10 * time.Second
	mendBatch   = 500
	repairPause = time.Minute // from one repair of a process to the next: it reads everything
)

// mender remembers how far this process has looked.
type mender struct {
	lookedAt   time.Time
	repairedAt time.Time
	after      int64 // the last job; 0: the next round begins with the first
}

// mendNext looks at the next jobs, and repairs the counts once some cannot be right.
func (s *session) mendNext(now int64) error {
	m := s.mender
	if m == nil || time.Since(m.lookedAt) < mendEvery {
		return nil
	}
	m.lookedAt = time.Now()
	queues, err := s.names("mend_queues", m.after, mendBatch)
	if err != nil {
		return err
	}
	for _, name := range queues {
		if _, err := s.ensureQueue(name); err != nil {
			return err
		}
	}
	if _, err := s.exec("mend_leases", m.after, mendBatch, now); err != nil {
		return err
	}
	if err := s.each("mend_claims", func(*sql.Rows) error { return nil }, m.after, mendBatch, now); err != nil {
		return err
	}
	err = s.each("mend_groups", func(rows *sql.Rows) error {
		var g group
		err := rows.Scan(&g.queue, &g.key)
		s.touch(g.queue, g.key)
		return err
	}, m.after, mendBatch)
	if err != nil {
		return err
	}
	if _, err := s.one("mended_to", []any{m.after, mendBatch}, &m.after); err != nil {
		return err
	}
	if err := s.settle(); err != nil || time.Since(m.repairedAt) < repairPause {
		return err
	}
	if err := s.writeTally(); err != nil {
		return err
	}
	miscounted := false
	if _, err := s.one("miscounted", nil, &miscounted); err != nil || !miscounted {
		return err
	}
	m.repairedAt = time.Now()
	_, err = s.repair()
	return err
}
