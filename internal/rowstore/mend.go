package rowstore

import (
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs/internal/reads"
)

const (
	// SQL by hand may leave rows in a state in which they would never be claimed or expire. Every
	// mendEvery a sweep looks for such rows among the next mendBatch jobs, and so goes through
	// all jobs in time.
	mendEvery   = 10 * time.Second
	mendBatch   = 500
	repairPause = time.Minute // shortest time between two repairs by one process, since a repair reads all rows
)

// mender remembers how far this process has looked at jobs.
type mender struct {
	lookedAt   time.Time
	repairedAt time.Time
	after      int64 // the last job looked at; 0: begin with the first
}

// mendNext looks at the next jobs, and repairs the counts if some are certainly wrong.
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

// mendSome looks at the mendBatch jobs that follow the job after. It returns the last of them (0 if that was the end),
// and how many it has repaired.
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
		err = s.each("mend_followers", func(rows *sql.Rows) error {
			var id, gone int64
			err := rows.Scan(&id, reads.Number(&gone))
			s.flows.children = append(s.flows.children, id)
			if gone != 0 {
				s.flows.ended = append(s.flows.ended, gone)
			}
			n++
			return err
		}, after, mendBatch)
	}
	if err == nil {
		_, err = s.one("mended_to", []any{after, mendBatch}, &last)
	}
	return last, n, err
}

// mendAll looks at all jobs, and returns how many it has repaired.
func (s *Session) mendAll(now int64) (n int, err error) {
	for after := int64(0); ; {
		last, some, err := s.mendSome(after, now)
		if n += some; err != nil || last == 0 {
			return n, err
		}
		after = last
	}
}
