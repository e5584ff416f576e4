package rowstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Extend makes the named leases end d from now.
func (s *Store) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (dibs.Extended, error) {
	leases, err := checks.Extend(leases, d)
	return call(ctx, s, "extend", err, func(tx *Session) (dibs.Extended, error) { return tx.extend(leases, d) })
}

func (s *Session) extend(leases []dibs.Lease, d time.Duration) (e dibs.Extended, err error) {
	now, err := s.now()
	if err != nil {
		return e, err
	}
	until := now + micro(d)
	tokens := make(map[dibs.Token]bool, 1)
	for _, l := range leases {
		var cancelled, timedOut bool
		held, err := s.one("extend", []any{l.ID, l.Token[:], now, until, progressText(l.Progress, now)}, &cancelled, &timedOut)
		switch {
		case err != nil:
			return e, err
		case !held:
			e.Lost = append(e.Lost, l.ID)
		case cancelled:
			e.Cancelled = append(e.Cancelled, l.ID)
		}
		if held && timedOut {
			e.TimedOut = append(e.TimedOut, l.ID)
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

// progressText is a progress as it is stored, without its attempt; nil for none.
func progressText(p *dibs.Progress, now int64) any {
	if p == nil {
		return nil
	}
	stored := *p
	stored.At = fromMicro(now)
	raw, _ := json.Marshal(stored) // it always encodes
	return string(raw)
}
