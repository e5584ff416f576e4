package postgres

import (
	"context"
	"encoding/json"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Register implements dibs.Store.
func (s *Store) Register(ctx context.Context, workers ...dibs.WorkerInfo) error {
	if err := s.ready(ctx, "register", checks.Workers(workers)); err != nil {
		return err
	}
	var stopped [][16]byte
	var live []dibs.WorkerInfo
	for _, w := range workers {
		if w.State == dibs.WorkerStopped {
			stopped = append(stopped, w.ID)
			continue
		}
		w.Kinds = kinds(w.Kinds)
		live = append(live, w)
	}
	var steps []step
	if live != nil {
		entries, _ := json.Marshal(live) // it always encodes
		steps = append(steps, s.step("put_worker", string(entries), dibs.WorkerKeptFor.Microseconds()))
	}
	if stopped != nil {
		steps = append(steps, s.step("drop_worker", stopped))
	}
	if steps == nil {
		return nil
	}
	return wrap("register", s.upkeep.run(ctx, steps...))
}
