// Package faulty gives a sound store one fault. Tests use it to show that a judge, a model or a suite of tests
// finds the fault.
package faulty

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Fault changes what a store is asked to do, or what it answers. What is not set stays as it is.
type Fault struct {
	Job           func(*dibs.NewJob)                      // changes each job before it is enqueued
	Claimed       func([]*dibs.RawJob) []*dibs.RawJob     // changes the answer to a claim
	Outcome       func(o *dibs.Outcome, now *dibs.RawJob) // changes each outcome before it is written; now is the job in the database
	Queue         func(*dibs.Queue)                       // changes the settings of a queue before they are stored
	Group         func(*dibs.Group)                       // changes the settings of a group before they are stored
	HidesRefusals bool                                    // Finish does not say that outcomes were refused
	AlwaysCommits bool                                    // a transaction that should be rolled back is committed
}

// The faults that several tests use.
var (
	ReversesOrder = Fault{Claimed: func(jobs []*dibs.RawJob) []*dibs.RawJob {
		slices.Reverse(jobs)
		return jobs
	}}
	CountsReleases = Fault{Outcome: func(o *dibs.Outcome, _ *dibs.RawJob) {
		if o.Ending == dibs.EndRelease {
			o.Ending, o.Delay, o.Error = dibs.EndRetry, new(time.Duration(0)), "released"
		}
	}}
)

// Store returns the store with the fault.
func (f Fault) Store(d admin.Database) admin.Database { return store{d, f} }

type store struct {
	admin.Database
	fault Fault
}

func (s store) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	if s.fault.Job != nil {
		jobs = slices.Clone(jobs)
		for i := range jobs {
			s.fault.Job(&jobs[i])
		}
	}
	return s.Database.Enqueue(ctx, jobs)
}

func (s store) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	jobs, err := s.Database.Claim(ctx, r)
	if s.fault.Claimed != nil {
		jobs = s.fault.Claimed(jobs)
	}
	return jobs, err
}

func (s store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if s.fault.Outcome != nil {
		outcomes = slices.Clone(outcomes)
		for i := range outcomes {
			if now, err := s.Get(ctx, outcomes[i].ID); err == nil {
				s.fault.Outcome(&outcomes[i], now)
			}
		}
	}
	err := s.Database.Finish(ctx, outcomes)
	if s.fault.HidesRefusals && errors.Is(err, dibs.ErrLeaseLost) {
		return nil
	}
	return err
}

func (s store) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	return s.Database.ChangeQueue(ctx, name, then(f, s.fault.Queue))
}

func (s store) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	return s.Database.ChangeGroup(ctx, queue, group, then(f, s.fault.Group))
}

// then returns a function that changes settings as f does, and then as the fault does, unless that is nil.
func then[T any](f func(*T) error, fault func(*T)) func(*T) error {
	return func(settings *T) error {
		err := f(settings)
		if fault != nil {
			fault(settings)
		}
		return err
	}
}

func (s store) InTx(ctx context.Context, f func(dibs.Tx) error) (failed error) {
	if !s.fault.AlwaysCommits {
		return s.Database.InTx(ctx, f)
	}
	err := s.Database.InTx(ctx, func(tx dibs.Tx) error {
		failed = f(tx)
		return nil
	})
	return errors.Join(failed, err)
}
