package rowstore

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
func (s *Session) mendNext(now int64) error {
	if s.upkeep == nil {
		return nil
	}
	m := &s.upkeep.mender
	if time.Since(m.lookedAt) < mendEvery {
		return nil
	}
	m.lookedAt = time.Now()
	var err error
	if m.after, _, err = s.mendSome(m.after, now); err != nil {
		return err
	}
	if err := s.settle(); err != nil || time.Since(m.repairedAt) < repairPause {
		return err
	}
	if err := s.WriteTally(); err != nil {
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

// mendSome looks at mendBatch jobs after one. It returns the last, 0 if there are no others, and how many it has mended.
func (s *Session) mendSome(after, now int64) (last int64, n int, err error) {
	queues, err := s.names("mend_queues", after, mendBatch)
	if err != nil {
		return 0, 0, err
	}
	for _, name := range queues {
		if _, err := s.ensureQueue(name); err != nil {
			return 0, 0, err
		}
	}
	leases, err := s.exec("mend_leases", after, mendBatch, now)
	if err != nil {
		return 0, 0, err
	}
	n = int(leases)
	if err := s.each("mend_claims", func(*sql.Rows) error { n++; return nil }, after, mendBatch, now); err != nil {
		return 0, 0, err
	}
	err = s.each("mend_groups", func(rows *sql.Rows) error {
		var g group
		err := rows.Scan(&g.queue, &g.key)
		s.touch(g.queue, g.key)
		return err
	}, after, mendBatch)
	if err == nil {
		_, err = s.one("mended_to", []any{after, mendBatch}, &last)
	}
	return last, n, err
}

// mendAll looks at all jobs, and returns how many it has mended.
func (s *Session) mendAll(now int64) (n int, err error) {
	for after := int64(0); ; {
		last, some, err := s.mendSome(after, now)
		if n += some; err != nil || last == 0 {
			return n, err
		}
		after = last
	}
}
