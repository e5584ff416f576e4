package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// shownTable is an adopted table as 'dibs serve' shows it: it can be looked at, and dead rows of its side table be
// requeued. Its rows are enqueued with SQL, and worked on by 'dibs work' or a program.
type shownTable struct{ *cmdline.AdoptedTable }

var _ admin.Database = shownTable{}

func (a *app) openToServe(ctx context.Context) (admin.Database, error) {
	if a.Table == "" {
		return a.Open(ctx)
	}
	if _, err := a.OpenTable(ctx); err != nil {
		return nil, err
	}
	return shownTable{a.Adopted}, nil
}

// cannot is the error of a call that has no meaning for the table, or is left to its workers.
func (t shownTable) cannot(what string) error {
	return fmt.Errorf("an adopted table is only shown here: %s: %w", what, errors.ErrUnsupported)
}

// Calls that only workers make, such as Sweep.

func (t shownTable) Claim(context.Context, dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	return nil, t.cannot("work on it with 'dibs work --table' or a program")
}

func (t shownTable) Resume(context.Context, dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	return nil, t.cannot("work on it with 'dibs work --table' or a program")
}

func (t shownTable) Extend(context.Context, []dibs.Lease, time.Duration) (dibs.Extended, error) {
	return dibs.Extended{}, t.cannot("its leases are its workers'")
}

func (t shownTable) Finish(context.Context, []dibs.Outcome) error {
	return t.cannot("its leases are its workers'")
}

func (t shownTable) Due(context.Context, []string, []string) ([]string, error) { return nil, nil }

func (t shownTable) Sweep(context.Context) (dibs.Swept, error) { return dibs.Swept{}, nil }

// Calls that change rows: an adopted table is changed with SQL.

func (t shownTable) Enqueue(context.Context, []dibs.NewJob) ([]dibs.Enqueued, error) {
	return nil, t.cannot("insert rows with SQL")
}

func (t shownTable) InTx(context.Context, func(dibs.Tx) error) error {
	return t.cannot("change rows with SQL")
}

func (t shownTable) Cancel(context.Context, []int64) (ended, asked []int64, err error) {
	return nil, nil, t.cannot("end rows with SQL")
}

func (t shownTable) Edit(context.Context, []int64, admin.Edit) ([]int64, error) {
	return nil, t.cannot("change rows with SQL")
}

func (t shownTable) DeleteEnded(context.Context, []int64, time.Time) ([]int64, error) {
	return nil, t.cannot("delete rows with SQL")
}

// Requeue puts back rows that are dead in the side table.
func (t shownTable) Requeue(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	if !until.IsZero() {
		return nil, t.cannot("its failures are not grouped")
	}
	return t.Store.Requeue(ctx, ids)
}

func (t shownTable) Prune(context.Context, string, dibs.State, time.Duration) (int, error) {
	return 0, t.cannot("delete rows with SQL")
}

func (t shownTable) ChangeQueue(context.Context, string, func(*dibs.Queue) error) (dibs.Queue, error) {
	return dibs.Queue{}, t.cannot("its settings are in its mapping")
}

func (t shownTable) DeleteQueue(context.Context, string, bool) error {
	return t.cannot("its mapping is its queue")
}

func (t shownTable) ChangeGroup(context.Context, string, string, func(*dibs.Group) error) error {
	return t.cannot("its settings are in its mapping")
}

func (t shownTable) Check(context.Context) ([]string, error) {
	return nil, t.cannot("'dibs adopt check' looks at its mapping")
}

// Calls about things that only dibs' own tables have.

func (t shownTable) Times(context.Context, string) (admin.Times, error) {
	return admin.Times{}, t.cannot("it keeps no times of its jobs")
}

func (t shownTable) Failures(context.Context, admin.FailureFilter) ([]admin.Failure, error) {
	return nil, t.cannot("'dibs ls --table --state dead' lists dead rows, if there is a side table")
}

func (t shownTable) Groups(context.Context, string) ([]dibs.Group, error) {
	return nil, t.cannot("its groups have no settings of their own")
}

func (t shownTable) Backlogs(context.Context, string, string) ([]admin.Backlog, error) {
	return nil, t.cannot("its groups are not counted")
}

func (t shownTable) History(context.Context, []string, time.Duration) ([]admin.Minute, error) {
	return nil, t.cannot("it keeps no history")
}

func (t shownTable) Workers(context.Context) ([]dibs.WorkerInfo, error) {
	return nil, t.cannot("it keeps no register of its workers")
}

func (t shownTable) DueKinds(context.Context, string) ([]string, error) {
	return nil, t.cannot("all rows have one kind")
}

func (t shownTable) Followers(context.Context, string) (int, error) {
	return 0, t.cannot("its rows come after no others")
}

func (t shownTable) Flow(context.Context, int64, int) (admin.Flow, error) {
	return admin.Flow{}, t.cannot("its rows come after no others")
}

func (t shownTable) FlowJobs(context.Context, int64, dibs.State, int64) ([]int64, error) {
	return nil, t.cannot("its rows come after no others")
}

func (t shownTable) Before(context.Context, int64, int64, int) ([]*dibs.RawJob, int64, error) {
	return nil, 0, t.cannot("its rows come after no others")
}

func (t shownTable) Steps(context.Context, dibs.Lease) ([]dibs.StepDone, error) {
	return nil, t.cannot("its rows have no place for steps")
}

func (t shownTable) PutStep(context.Context, dibs.Lease, string, json.RawMessage) error {
	return t.cannot("its rows have no place for steps")
}

func (t shownTable) NoteChange(context.Context, admin.Change) error {
	return t.cannot("who changes what is in the server's log")
}

func (t shownTable) Changes(context.Context, int) ([]admin.Change, error) {
	return nil, t.cannot("who changes what is in the server's log")
}

func (t shownTable) noSchedules() error { return t.cannot("it has no schedules") }

func (t shownTable) Schedules(context.Context, ...string) ([]dibs.Schedule, error) {
	return nil, t.noSchedules()
}

func (t shownTable) SetSchedule(context.Context, dibs.Schedule, ...string) (dibs.Schedule, error) {
	return dibs.Schedule{}, t.noSchedules()
}

func (t shownTable) ChangeSchedule(context.Context, string, func(*dibs.Schedule) error) (dibs.Schedule, error) {
	return dibs.Schedule{}, t.noSchedules()
}

func (t shownTable) SetSchedules(context.Context, string, []dibs.Schedule) error {
	return t.noSchedules()
}

func (t shownTable) DeleteSchedule(context.Context, string, ...string) error { return t.noSchedules() }

func (t shownTable) RunSchedule(context.Context, string, ...string) (dibs.Enqueued, error) {
	return dibs.Enqueued{}, t.noSchedules()
}

func (t shownTable) NextTicks(context.Context, dibs.Schedule, int) ([]time.Time, error) {
	return nil, t.noSchedules()
}
