package rowstore

import (
	"context"
	"database/sql"
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
		now, err := tx.now()
		if err != nil {
			return err
		}
		stopped := []string{}
		for _, w := range workers {
			if w.State == dibs.WorkerStopped {
				stopped = append(stopped, w.ID.String())
				continue
			}
			if len(w.Kinds) == 0 {
				w.Kinds = nil
			}
			if err := tx.later("put_worker", w.ID[:], w.Name, w.Host, w.PID, w.Version, jsonList(w.Queues), jsonList(w.Kinds), w.Concurrency, w.State, now); err != nil {
				return err
			}
		}
		return tx.later("drop_worker", jsonList(stopped), now-micro(dibs.WorkerKeptFor))
	})
}

// jsonList is a list as it is stored, or null for nil.
func jsonList(names []string) any {
	if names == nil {
		return nil
	}
	raw, _ := json.Marshal(names) // strings always encode
	return string(raw)
}

// Workers lists the register of workers: see dibs.Admin.
func (s *Store) Workers(ctx context.Context) ([]dibs.WorkerInfo, error) {
	all := []dibs.WorkerInfo{}
	err := s.read(ctx, "workers", func(rows *sql.Rows) error {
		var w dibs.WorkerInfo
		var queues string
		var kinds sql.NullString
		err := rows.Scan(tokenColumn{&w.ID}, &w.Name, &w.Host, &w.PID, &w.Version, &queues, &kinds, &w.Concurrency, &w.State, clock{&w.Since}, clock{&w.Seen})
		if err != nil {
			return err
		}
		// A list that holds something else is read as far as possible: only SQL by hand leaves one.
		_ = json.Unmarshal([]byte(queues), &w.Queues)
		if kinds.Valid {
			_ = json.Unmarshal([]byte(kinds.String), &w.Kinds)
		}
		all = append(all, w)
		return nil
	}, micro(dibs.WorkerLostAfter))
	if err != nil {
		return nil, s.wrap("workers", err)
	}
	return all, nil
}

// kindsLook is how many jobs DueKinds looks at.
const kindsLook = 1000

// DueKinds lists the kinds of due jobs: see dibs.Admin.
func (s *Store) DueKinds(ctx context.Context, queue string) ([]string, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := checks.Name("queue", queue); err != nil {
		return nil, err
	}
	kinds := []string{}
	err := s.read(ctx, "due_kinds", func(rows *sql.Rows) error {
		var kind string
		err := rows.Scan(&kind)
		kinds = append(kinds, kind)
		return err
	}, queue, kindsLook)
	if err != nil {
		return nil, s.wrap("due kinds", err)
	}
	return kinds, nil
}
