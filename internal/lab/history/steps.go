package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dibs-queue/dibs"
)

func (w *wrapped) Steps(ctx context.Context, l dibs.Lease) ([]dibs.StepDone, error) {
	return w.r.steps(ctx, "", w.Database, l)
}

func (w *wrapped) PutStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage) error {
	return w.r.putStep(ctx, "", w.Database, l, name, value)
}

func (w *wrappedTx) Steps(ctx context.Context, l dibs.Lease) ([]dibs.StepDone, error) {
	return w.r.steps(ctx, w.id, w.tx, l)
}

func (w *wrappedTx) PutStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage) error {
	return w.r.putStep(ctx, w.id, w.tx, l, name, value)
}

func (r *Recorder) steps(ctx context.Context, tx string, store any, l dibs.Lease) (done []dibs.StepDone, err error) {
	s, ok := store.(dibs.StepStore)
	if !ok {
		return nil, fmt.Errorf("%T keeps no steps: %w", store, errors.ErrUnsupported)
	}
	err = r.record(&Call{Verb: Steps, Tx: tx, Leases: []dibs.Lease{l}}, func(c *Call) error {
		done, err = s.Steps(ctx, l)
		for _, d := range done {
			c.Steps = append(c.Steps, Step{d.Name, Sum(d.Value)})
		}
		c.noteLost(err)
		return err
	})
	return done, err
}

func (r *Recorder) putStep(ctx context.Context, tx string, store any, l dibs.Lease, name string, value json.RawMessage) error {
	s, ok := store.(dibs.StepStore)
	if !ok {
		return fmt.Errorf("%T keeps no steps: %w", store, errors.ErrUnsupported)
	}
	c := &Call{Verb: PutStep, Tx: tx, Leases: []dibs.Lease{l}, Steps: []Step{{name, Sum(value)}}}
	return r.record(c, func(c *Call) error {
		err := s.PutStep(ctx, l, name, value)
		c.noteLost(err)
		return err
	})
}

// noteLost notes that the answer to the call says that the lease is lost.
func (c *Call) noteLost(err error) {
	if errors.Is(err, dibs.ErrLeaseLost) {
		c.Fate, c.Refused = Done, []int64{c.Leases[0].ID}
	}
}
