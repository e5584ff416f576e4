package rowstore

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

// Steps reads what the attempts of a job have done: see dibs.StepStore.
func (s *Store) Steps(ctx context.Context, l dibs.Lease) ([]dibs.StepDone, error) {
	if err := checks.Steps(l); err != nil {
		return nil, err
	}
	var list stepList
	err := s.read(ctx, "steps", list.scan, l.ID, tokenOrNull(l.Token), s.now())
	if err != nil {
		return nil, s.wrap("steps", err)
	}
	return list.of(l)
}

// PutStep writes that a step is done: see dibs.StepStore.
func (s *Store) PutStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage) error {
	if err := checks.Step(l, name, value); err != nil {
		return err
	}
	return s.write(s.nearClaim(ctx, l.Token), "put step", func(tx *Session) error { return tx.putStep(l, name, value) })
}

// Steps is Store.Steps in the transaction.
func (t *Tx) Steps(ctx context.Context, l dibs.Lease) (all []dibs.StepDone, err error) {
	if err := checks.Steps(l); err != nil {
		return nil, err
	}
	err = t.do(ctx, "steps", func(s *Session) (err error) {
		now := s.now()
		if s.ownTokens[l.Token] {
			now = 0
		}
		var list stepList
		if err = s.each("steps", list.scan, l.ID, tokenOrNull(l.Token), now); err == nil {
			all, err = list.of(l)
		}
		return t.store.holdsElsewhere(ctx, l, err)
	})
	return all, err
}

// PutStep is Store.PutStep in the transaction.
func (t *Tx) PutStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage) error {
	if err := checks.Step(l, name, value); err != nil {
		return err
	}
	return t.do(ctx, "put step", func(s *Session) error { return t.store.holdsElsewhere(ctx, l, s.putStep(l, name, value)) })
}

func (s *Session) putStep(l dibs.Lease, name string, value json.RawMessage) error {
	now := s.now()
	jobs, err := s.holding([]int64{l.ID})
	if err != nil {
		return err
	}
	if jobs[l.ID] == nil {
		busy, err := s.busy([]dibs.Lease{l})
		if err == nil && busy[l.ID] {
			err = errAgain
		}
		if err != nil {
			return err
		}
	}
	if j := jobs[l.ID]; j == nil || j.token != l.Token || j.leaseUntil <= now && !s.ownTokens[l.Token] {
		return checks.StepLost(l.ID)
	}
	var steps int
	var bytes int64
	var done sql.NullString
	if _, err := s.one("step_room", []any{l.ID, name}, &steps, &bytes, &done); err != nil {
		return err
	}
	switch {
	case done.Valid && done.String == string(value):
		return nil
	case done.Valid:
		return checks.StepDiffers(l.ID, name)
	}
	if err := checks.MoreSteps(l.ID, name, len(value), steps, bytes); err != nil {
		return err
	}
	if s.certified() { // the job must not get another holder on another node meanwhile
		s.later("touch", jsonIDs([]int64{l.ID}))
	}
	s.later("put_step", l.ID, name, string(value))
	return s.err
}

// stepList reads the rows of steps.sql.
type stepList struct {
	held  bool
	steps []dibs.StepDone
}

func (list *stepList) scan(rows *sql.Rows) error {
	var name, value sql.NullString
	err := rows.Scan(&list.held, reads.Text(&name.String), &value)
	if value.Valid {
		list.steps = append(list.steps, dibs.StepDone{Name: name.String, Value: json.RawMessage(value.String)})
	}
	return err
}

func (list *stepList) of(l dibs.Lease) ([]dibs.StepDone, error) {
	if !list.held {
		return nil, checks.StepLost(l.ID)
	}
	return list.steps, nil
}

func tokenOrNull(t dibs.Token) any {
	if t.IsZero() {
		return nil
	}
	return t[:]
}
