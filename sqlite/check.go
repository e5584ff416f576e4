package sqlite

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
)

// Check looks for anything in the database that must not be.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	var found []string
	note := func(rows *sql.Rows) error {
		w, err := scanWrong(rows)
		found = append(found, w.finding)
		return err
	}
	err := s.read(ctx, "repairable", note)
	if err == nil {
		err = s.read(ctx, "check", func(rows *sql.Rows) error {
			var what string
			err := rows.Scan(&what)
			found = append(found, what)
			return err
		})
	}
	return found, wrap("check", err)
}

// Repair mends what Check finds when rows were deleted or inserted by hand, and returns
// those findings, one line each: counts that are not those of the rows, and groups whose
// jobs nobody lets go on. Workers may run meanwhile, but nobody writes while it reads all
// rows. It is what the command dibs check --repair does.
func (s *Store) Repair(ctx context.Context) ([]string, error) {
	found := []string{}
	err := s.write(ctx, "repair", func(tx *session) error {
		wrong, err := tx.wrong()
		if err != nil {
			return err
		}
		for _, w := range wrong {
			found = append(found, w.finding)
			if err := tx.mend(w); err != nil {
				return err
			}
		}
		return tx.settle()
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// wrong is a row of repairable.sql.
type wrong struct {
	finding, queue, state string
	lacks                 int64
}

func scanWrong(rows *sql.Rows) (w wrong, err error) {
	err = rows.Scan(&w.finding, &w.queue, &w.state, &w.lacks)
	return w, err
}

func (s *session) wrong() (all []wrong, err error) {
	// Calls before this one, in the same transaction, have changed rows.
	if err := s.writeTally(); err != nil {
		return nil, err
	}
	err = s.each("repairable", func(rows *sql.Rows) error {
		w, err := scanWrong(rows)
		all = append(all, w)
		return err
	})
	return all, err
}

func (s *session) mend(w wrong) error {
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
