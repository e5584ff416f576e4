package rowstore

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

// Repair mends what Check finds after rows were deleted or inserted by hand, and returns those findings, one line each.
func (s *Store) Repair(ctx context.Context) ([]string, error) {
	return call(ctx, s, "repair", nil, func(tx *Session) ([]string, error) {
		if err := tx.needTurn(TurnSweep, "", false); err != nil { // two repairs at once would both add what the counts lack
			return nil, err
		}
		return tx.repair()
	})
}

func (s *Session) repair() ([]string, error) {
	mended, err := s.mendAll(s.now())
	if err != nil {
		return nil, err
	}
	wrong, err := s.findDamage()
	if err != nil {
		return nil, err
	}
	found := checks.Mended(mended)
	for _, w := range wrong {
		found = append(found, w.Finding)
		if err := s.mend(w); err != nil {
			return nil, err
		}
	}
	return found, s.settle()
}

func (s *Session) findDamage() (all []reads.Damage, err error) {
	// Write the counts first: earlier calls in this transaction have changed rows, but not the counts.
	if err := s.WriteTally(); err != nil {
		return nil, err
	}
	err = s.each("repairable", func(rows *sql.Rows) error {
		var w reads.Damage
		err := rows.Scan(w.Columns()...)
		all = append(all, w)
		return err
	})
	return all, err
}

func (s *Session) mend(w reads.Damage) error {
	switch w.State {
	case "group":
		return s.touchAll(w.Queue)
	case "step":
		s.later("stray_steps")
		return nil
	case "edge":
		s.flows.ended = append(s.flows.ended, w.Lacks)
		return nil
	}
	s.count(w.Queue, func(t *tally) {
		switch state := dibs.State(w.State); state {
		case dibs.Waiting:
			t.waiting += w.Lacks
		case dibs.Blocked:
			t.blocked += w.Lacks
		case dibs.Running:
			t.running += w.Lacks
		default:
			t.ended(state, w.Lacks)
		}
	})
	return nil
}
