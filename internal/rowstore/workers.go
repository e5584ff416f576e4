package rowstore

import (
	"context"
	"encoding/json"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Register writes entries of the register: see dibs.Store.
func (s *Store) Register(ctx context.Context, workers ...dibs.WorkerInfo) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := checks.Workers(workers); err != nil || len(workers) == 0 {
		return err
	}
	return s.write(ctx, "register", func(tx *Session) error {
		now := tx.now()
		stopped := []string{}
		for _, w := range workers {
			if w.State == dibs.WorkerStopped {
				stopped = append(stopped, w.ID.String())
				continue
			}
			if len(w.Kinds) == 0 {
				w.Kinds = nil
			}
			tx.later("put_worker", w.ID[:], w.Name, w.Host, w.PID, w.Version, jsonList(w.Queues), jsonList(w.Kinds), w.Concurrency, w.State, now)
		}
		tx.later("drop_worker", jsonList(stopped), now-micro(dibs.WorkerKeptFor))
		return nil
	})
}

// jsonList encodes a list as it is stored: nil as null.
func jsonList(names []string) any {
	if names == nil {
		return nil
	}
	raw, _ := json.Marshal(names) // strings always encode
	return string(raw)
}
