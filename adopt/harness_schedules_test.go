package adopt_test

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
)

// noSchedules are the calls that an adopted table does not have.
type noSchedules struct{}

func (noSchedules) Schedules(context.Context, ...string) ([]dibs.Schedule, error) {
	return nil, errHarness
}

func (noSchedules) SetSchedule(context.Context, dibs.Schedule, ...string) (dibs.Schedule, error) {
	return dibs.Schedule{}, errHarness
}

func (noSchedules) ChangeSchedule(context.Context, string, func(*dibs.Schedule) error) (dibs.Schedule, error) {
	return dibs.Schedule{}, errHarness
}

func (noSchedules) SetSchedules(context.Context, string, []dibs.Schedule) error { return errHarness }

func (noSchedules) DeleteSchedule(context.Context, string, ...string) error { return errHarness }

func (noSchedules) RunSchedule(context.Context, string, ...string) (dibs.Enqueued, error) {
	return dibs.Enqueued{}, errHarness
}

func (noSchedules) NextTicks(context.Context, dibs.Schedule, int) ([]time.Time, error) {
	return nil, errHarness
}

func (noSchedules) Register(context.Context, ...dibs.WorkerInfo) error { return nil }

func (noSchedules) Workers(context.Context) ([]dibs.WorkerInfo, error) { return nil, errHarness }

func (noSchedules) DueKinds(context.Context, string) ([]string, error) { return nil, errHarness }

// Wake wakes nobody: workers poll.
func (*harnessIn) Wake() {}
