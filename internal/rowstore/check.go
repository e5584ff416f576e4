package rowstore

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/ticks"
)

// Check looks for anything in the database that breaks an invariant.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	var found []string
	note := func(rows *sql.Rows) error {
		w, err := scanDamage(rows)
		found = append(found, w.finding)
		return err
	}
	err := s.read(ctx, "repairable", note)
	now := int64(0)
	if err == nil {
		err = s.read(ctx, "clock_now", func(rows *sql.Rows) error { return rows.Scan(&now) })
	}
	if err == nil {
		err = s.read(ctx, "check", func(rows *sql.Rows) error {
			var what string
			err := rows.Scan(&what)
			found = append(found, what)
			return err
		}, now)
	}
	if err == nil {
		err = s.read(ctx, "texts", func(rows *sql.Rows) error {
			var j dibs.RawJob
			err := rows.Scan(&j.ID, document{&j.Payload}, document{&j.Metadata})
			found = append(found, checks.Texts(&j)...)
			return err
		})
	}
	if err != nil {
		return nil, s.wrap("check", err)
	}
	schedules, err := ticks.UnreadableOf(ctx, s.Schedules)
	return append(found, schedules...), err
}

// Repair mends what Check finds after rows were deleted or inserted by hand, and returns
// those findings, one line each: jobs that nobody would ever claim or expire, counts that
// differ from the rows, and groups that have free places but wait. Workers may run meanwhile, but all writes wait while it reads all
// rows. The command dibs check --repair calls it.
func (s *Store) Repair(ctx context.Context) ([]string, error) {
	return call(ctx, s, "repair", nil, (*Session).repair)
}

func (s *Session) repair() ([]string, error) {
	now, err := s.now()
	if err != nil {
		return nil, err
	}
	mended, err := s.mendAll(now)
	if err != nil {
		return nil, err
	}
	wrong, err := s.findDamage()
	if err != nil {
		return nil, err
	}
	found := checks.Mended(mended)
	for _, w := range wrong {
		found = append(found, w.finding)
		if err := s.mend(w); err != nil {
			return nil, err
		}
	}
	return found, s.settle()
}

// damage is a row of repairable.sql.
type damage struct {
	finding, queue, state string
	lacks                 int64
}

func scanDamage(rows *sql.Rows) (w damage, err error) {
	err = rows.Scan(&w.finding, &w.queue, &w.state, &w.lacks)
	return w, err
}

func (s *Session) findDamage() (all []damage, err error) {
	// Earlier calls in the same transaction have changed rows, but not yet the counts.
	if err := s.WriteTally(); err != nil {
		return nil, err
	}
	err = s.each("repairable", func(rows *sql.Rows) error {
		w, err := scanDamage(rows)
		all = append(all, w)
		return err
	})
	return all, err
}

func (s *Session) mend(w damage) error {
	if w.state == "group" {
		return s.touchAll(w.queue)
	}
	s.count(w.queue, func(t *tally) {
		switch state := dibs.State(w.state); state {
		case dibs.Waiting:
			t.waiting += w.lacks
		case dibs.Blocked:
			t.blocked += w.lacks
		case dibs.Running:
			t.running += w.lacks
		default:
			t.ended(state, w.lacks)
		}
	})
	return nil
}
