package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs/internal/adopted"
)

func refused(err error) bool { return adopted.Refused(err) || errors.Is(err, errHidden) }

// claimAround claims rows, and passes over those that the table refuses to have claimed.
func (s *Store) claimAround(ctx context.Context, t *claimCall, n int) ([]*row, error) {
	for range maxTrials {
		rows, err := s.claim(ctx, t, n)
		if err != nil {
			rows = nil // the rows were chosen, but not claimed
		}
		s.passed.changed(rows)
		if err == nil && len(rows) < n {
			s.passed.tookAll(t.sent)
		}
		if !refused(err) && (err != nil || !s.mayHide(len(rows), n)) {
			return rows, err
		}
		found, trialErr := s.passOver(ctx, t, n-len(rows))
		switch {
		case trialErr != nil && err == nil: // the next claim tries again
			return rows, nil
		case trialErr != nil:
			return nil, trialErr
		case found == 0:
			return rows, err
		}
		s.passed.tryAgain()
		if len(rows) > 0 { // the next claim passes over what was found
			return rows, nil
		}
		t.values["passed"] = s.passed.keys()
	}
	s.wakers.later(reclaimDelay)
	return nil, nil
}

// claimAroundIn is claimAround in the caller's transaction. The first refusal that a store meets ends such a transaction;
// from then on the store claims in savepoints.
func (s *Store) claimAroundIn(ctx context.Context, q adopted.Querier, t *claimCall, n int) (rows []*row, err error) {
	if s.do.TryMark == nil || !s.passed.refusing.Load() {
		rows, err = s.claimIn(ctx, q, t, n)
		if refused(err) {
			s.passed.refusing.Store(true)
			err = fmt.Errorf("%w (roll back: in the next transaction such rows are passed over)", err)
		}
		return rows, err
	}
	for range maxTrials {
		found := 0
		err = adopted.InSavepoint(ctx, q, "dibs_claims", func() error {
			if rows, err = s.claimIn(ctx, q, t, n); err != nil {
				rows = nil // the rows were chosen, but not claimed
			}
			return err
		})
		if errors.Is(err, adopted.ErrEnded) || !refused(err) && (err != nil || !s.mayHide(len(rows), n)) {
			return rows, err
		}
		trialErr := adopted.InSavepoint(ctx, q, "dibs_claims", func() error {
			next, err := s.next(ctx, q, t, n-len(rows))
			if err == nil {
				found, err = s.tryToMark(ctx, q, t, next)
			}
			if err == nil {
				err = adopted.ErrUndo
			}
			return err
		})
		if found == 0 || len(rows) > 0 || !errors.Is(trialErr, adopted.ErrUndo) {
			return rows, err
		}
		t.values["passed"] = s.passed.keys()
	}
	return nil, err
}

// passOver tries to claim the next n rows, and passes over those that are refused. It claims none.
func (s *Store) passOver(ctx context.Context, t *claimCall, n int) (found int, err error) {
	if s.do.TryMark == nil { // a claim changes nothing in the table
		return 0, nil
	}
	for ; n > 0; n /= 2 {
		err = s.write(ctx, func(q adopted.Querier) error {
			rows, err := s.next(ctx, q, t, n)
			if err == nil {
				found, err = s.tryToMark(ctx, q, t, rows)
			}
			if err == nil {
				err = adopted.ErrUndo
			}
			return err
		})
		if !errors.Is(err, adopted.ErrEnded) || found > 0 {
			break
		}
	}
	if errors.Is(err, adopted.ErrUndo) || found > 0 {
		err = nil
	}
	return found, err
}

// next locks the rows that a claim of n takes.
func (s *Store) next(ctx context.Context, q adopted.Querier, t *claimCall, n int) ([]*row, error) {
	n, err := s.freePlaces(ctx, q, n)
	if err != nil || n == 0 {
		return nil, err
	}
	t.values["n"], t.values["look"] = n, lookSizes(n)[1]
	if s.do.Turn != nil {
		t.values["missed"], t.values["turns"] = nil, maxTurns
		found, err := run(ctx, q, s.do.Turn, t.values, scanChosen)
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(r *row) bool { return r.key == "" })
		if len(found) == 0 {
			return nil, nil
		}
		t.values["batch"], t.values["held"] = batch(keysOf(found)), jsonArray(groupsOf(found))
	}
	return run(ctx, q, s.do.TryClaim, t.values, scanRow)
}

// tryToMark writes a claim into rows that the transaction has locked. It passes over those that are refused.
func (s *Store) tryToMark(ctx context.Context, q adopted.Querier, t *claimCall, rows []*row) (found int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	var marked []*row
	t.values["batch"] = batch(keysOf(rows))
	err = adopted.InSavepoint(ctx, q, "dibs_trial", func() (err error) {
		marked, err = run(ctx, q, s.do.TryMark, t.values, scanMarks)
		return err
	})
	switch {
	case err == nil:
		keys := keysWithout(rows, marked)
		for _, key := range keys {
			s.passed.add("claimed", key, errHidden)
		}
		return len(keys), nil
	case !refused(err):
		return 0, err
	case len(rows) == 1:
		s.passed.add("claimed", rows[0].key, err)
		found = 1
	}
	if errors.Is(err, adopted.ErrEnded) {
		return found, err
	}
	if len(rows) == 1 {
		return found, nil
	}
	for _, half := range [][]*row{rows[:len(rows)/2], rows[len(rows)/2:]} {
		more, err := s.tryToMark(ctx, q, t, half)
		if found += more; err != nil {
			return found, err
		}
	}
	return found, nil
}

// expire ends claims whose lease has ended, by one of three statements: for all, to list them, and for named ones. If
// the table refuses that, it ends those that it can, and passes over the others. It returns the rows that it changed.
func (s *Store) expire(ctx context.Context, all, keys, named *adopted.Statement) ([]*row, error) {
	if all == nil {
		return nil, nil
	}
	values := map[string]any{"passed": s.passed.keys()}
	rows, err := s.alter(ctx, all, values)
	if !adopted.Refused(err) {
		return rows, err
	}
	late, err := run(ctx, s.db, keys, values, scanKey)
	if err != nil {
		return nil, err
	}
	return s.inHalves(late, func(some []*row) ([]*row, error) {
		return s.alter(ctx, named, map[string]any{"batch": batch(keysOf(some))})
	})
}

// inHalves calls f with rows to put back: with all, and if the table refuses that, with halves of them. It passes over
// rows that are refused alone, and returns what f has changed.
func (s *Store) inHalves(rows []*row, f func(some []*row) ([]*row, error)) ([]*row, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	changed, err := f(rows)
	switch {
	case !adopted.Refused(err):
		return changed, err
	case len(rows) == 1:
		s.passed.add("put back", rows[0].key, err)
		return nil, nil
	}
	changed, err = s.inHalves(rows[:len(rows)/2], f)
	if err != nil {
		return changed, err
	}
	more, err := s.inHalves(rows[len(rows)/2:], f)
	return append(changed, more...), err
}
