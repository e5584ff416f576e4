package sqlite

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Extend makes the named leases end d from now.
func (s *Store) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (dibs.Extended, error) {
	var e dibs.Extended
	if err := checks.Extend(leases, d); err != nil {
		return e, err
	}
	err := s.write(ctx, "extend", func(tx *session) (err error) {
		e, err = tx.extend(leases, d)
		return err
	})
	if err != nil {
		return dibs.Extended{}, err
	}
	return e, nil
}

func (s *session) extend(leases []dibs.Lease, d time.Duration) (e dibs.Extended, err error) {
	now, err := s.now()
	if err != nil {
		return e, err
	}
	until := now + micro(d)
	tokens := make(map[dibs.Token]bool, 1)
	for _, l := range leases {
		var cancelled bool
		held, err := s.one("extend", []any{l.ID, l.Token[:], now, until}, &cancelled)
		switch {
		case err != nil:
			return e, err
		case !held:
			e.Lost = append(e.Lost, l.ID)
		case cancelled:
			e.Cancelled = append(e.Cancelled, l.ID)
		}
		tokens[l.Token] = true
	}
	for token := range tokens {
		if _, err := s.exec("check_earlier", token[:], until); err != nil {
			return e, err
		}
	}
	return e, nil
}
