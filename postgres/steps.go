package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Steps implements dibs.StepStore.
func (s *Store) Steps(ctx context.Context, l dibs.Lease) ([]dibs.StepDone, error) {
	if err := s.ready(ctx, "steps", checks.Steps(l)); err != nil {
		return nil, err
	}
	return s.steps(ctx, l, finisher{conn: s.db})
}

// PutStep implements dibs.StepStore.
func (s *Store) PutStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage) error {
	if err := s.ready(ctx, "put step", checks.Step(l, name, value)); err != nil {
		return err
	}
	return s.putStep(ctx, l, name, value, finisher{conn: s.db, lockWait: lastLockWait})
}

// Steps implements dibs.StepStore.
func (t *tx) Steps(ctx context.Context, l dibs.Lease) ([]dibs.StepDone, error) {
	end, err := t.use(ctx, "steps", checks.Steps(l))
	if err != nil {
		return nil, err
	}
	defer end()
	return t.s.steps(ctx, l, finisher{conn: t.conn, ownTokens: t.ownTokens})
}

// PutStep implements dibs.StepStore.
func (t *tx) PutStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage) error {
	end, err := t.use(ctx, "put step", checks.Step(l, name, value))
	if err != nil {
		return err
	}
	defer end()
	return t.s.putStep(ctx, l, name, value, finisher{conn: t.conn, ownTokens: t.ownTokens})
}

func (s *Store) steps(ctx context.Context, l dibs.Lease, f finisher) ([]dibs.StepDone, error) {
	type row struct {
		held        bool
		name, value *string
	}
	var rows []row
	err := f.run(ctx, collect(s.step("steps", l.ID, tokenOrNull(l.Token), f.ownTokens), &rows, func(r *row) []any { return []any{&r.held, &r.name, &r.value} }))
	if err != nil {
		return nil, wrap("steps", err)
	}
	var all []dibs.StepDone
	for _, r := range rows {
		if !r.held {
			return nil, checks.StepLost(l.ID)
		}
		if r.name != nil && r.value != nil {
			all = append(all, dibs.StepDone{Name: *r.name, Value: json.RawMessage(*r.value)})
		}
	}
	return all, nil
}

// putStep writes a checked step. A second try looks in a newer snapshot: the first may have seen the old end of a lease that
// was just being extended, or not seen a step that was just committed.
func (s *Store) putStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage, f finisher) error {
	var held, done, same bool
	var steps int
	var bytes int64
	s.sweeper.settler.seen.Store(true)
	put := s.step("put_step", l.ID, [16]byte(l.Token), f.ownTokens, name, string(value), dibs.MaxSteps, int64(dibs.MaxStepsTotal)).into(&held, &done, &same, &steps, &bytes)
	inTx := f.lockWait == 0 // an error ends the caller's transaction
	for try := 1; try <= 2; try++ {
		err := f.run(ctx, f.steps(put)...)
		switch {
		case isLocked(err):
			err = fmt.Errorf("another transaction holds job %d; commit it first: %w", l.ID, err)
		case repeatable(err) && !inTx && try == 1:
			continue
		}
		if err != nil {
			return wrap("put step", err)
		}
		if held {
			break
		}
	}
	switch {
	case !held:
		return checks.StepLost(l.ID)
	case same:
		return nil
	case done:
		return checks.StepDiffers(l.ID, name)
	}
	return checks.MoreSteps(l.ID, name, len(value), steps, bytes)
}

func tokenOrNull(t dibs.Token) any {
	if t.IsZero() {
		return nil
	}
	return [16]byte(t)
}
