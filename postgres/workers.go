package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Register implements dibs.Store.
func (s *Store) Register(ctx context.Context, workers ...dibs.WorkerInfo) error {
	if err := s.check(ctx, "register", checks.Workers(workers)); err != nil {
		return err
	}
	var stopped [][16]byte
	var live []dibs.WorkerInfo
	for _, w := range workers {
		if w.State == dibs.WorkerStopped {
			stopped = append(stopped, w.ID)
			continue
		}
		if len(w.Kinds) == 0 {
			w.Kinds = nil
		}
		live = append(live, w)
	}
	var steps []step
	if live != nil {
		entries, _ := json.Marshal(live) // it always encodes
		steps = append(steps, step{sql: s.sql.get("put_worker"), args: []any{string(entries), dibs.WorkerKeptFor.Microseconds()}})
	}
	if stopped != nil {
		steps = append(steps, step{sql: s.sql.get("drop_worker"), args: []any{stopped}})
	}
	if steps == nil {
		return nil
	}
	return classify("register", s.upkeep.run(ctx, steps...))
}

// Workers implements dibs.Admin.
func (s *Store) Workers(ctx context.Context) ([]dibs.WorkerInfo, error) {
	if err := s.check(ctx, "workers"); err != nil {
		return nil, err
	}
	var all []dibs.WorkerInfo
	err := s.db.run(ctx, step{
		sql: s.sql.get("workers"), args: []any{dibs.WorkerLostAfter.Microseconds()},
		begin: func() { all = []dibs.WorkerInfo{} },
		row: func(scan func(...any) error) error {
			var w dibs.WorkerInfo
			var id pgtype.UUID
			var since, seen pgtype.Timestamptz
			err := scan(&id, &w.Name, &w.Host, &w.PID, &w.Version, &w.Queues, &w.Kinds, &w.Concurrency, &w.State, &since, &seen)
			w.ID, w.Since, w.Seen = id.Bytes, utc(since), utc(seen)
			all = append(all, w)
			return err
		},
	})
	return all, classify("workers", err)
}

// kindsLook is how many jobs DueKinds looks at.
const kindsLook = 1000

// DueKinds implements dibs.Admin.
func (s *Store) DueKinds(ctx context.Context, queue string) ([]string, error) {
	if err := s.check(ctx, "due kinds"); err != nil {
		return nil, err
	}
	if err := checks.Name("queue", queue); err != nil {
		return nil, err
	}
	var kinds []string
	err := s.db.run(ctx, step{
		sql: s.sql.get("due_kinds"), args: []any{queue, kindsLook},
		begin: func() { kinds = []string{} },
		row: func(scan func(...any) error) error {
			var kind string
			err := scan(&kind)
			kinds = append(kinds, kind)
			return err
		},
	})
	return kinds, classify("due kinds", err)
}
