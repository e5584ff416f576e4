package sqlserver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// The methods of admin.Database that only read are in internal/reads, and those that decide in Go in internal/rowstore.

func (s *Store) common() *rowstore.Store {
	if s == nil {
		return nil // a nil rowstore.Store says itself that the store is not open
	}
	return s.rows
}

func (s *Store) reads() reads.Calls { return s.common().Reads() }

// Use puts middleware around every Enqueue of the store and of its transactions: f gets the
// next function and returns one that calls it. It is called at each Enqueue. What was given
// first is outermost. The jobs are a copy, which it may change; their number must stay. They
// have not been checked. Jobs of schedules do not pass: any program enqueues them when their
// tick comes. Call Use before the store is used.
func (s *Store) Use(f func(next dibs.EnqueueFunc) dibs.EnqueueFunc) { s.common().Use(f) }

// Enqueue inserts all jobs or none.
func (s *Store) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return s.common().Enqueue(ctx, jobs)
}

// Due lists those of the queues from which a claim of these kinds may find jobs now.
func (s *Store) Due(ctx context.Context, queues, kinds []string) (due []string, err error) {
	return s.common().Due(ctx, queues, kinds)
}

// Claim takes up to r.N due jobs in the queue's order.
func (s *Store) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	return s.common().Claim(ctx, r)
}

// Resume gives a restarted worker the jobs that a worker of the same name still holds.
func (s *Store) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	return s.common().Resume(ctx, r)
}

// Extend makes the named leases end d from now.
func (s *Store) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (dibs.Extended, error) {
	return s.common().Extend(ctx, leases, d)
}

// Finish writes outcomes; those whose token is no longer good are refused.
func (s *Store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return s.common().Finish(ctx, outcomes)
}

// Steps lists what the attempts of a job have done: see dibs.StepStore.
func (s *Store) Steps(ctx context.Context, l dibs.Lease) ([]dibs.StepDone, error) {
	return s.common().Steps(ctx, l)
}

// PutStep writes that a step is done: see dibs.StepStore.
func (s *Store) PutStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage) error {
	return s.common().PutStep(ctx, l, name, value)
}

// Sweep does what is due by the clock: see dibs.Store.
func (s *Store) Sweep(ctx context.Context) (dibs.Swept, error) { return s.common().Sweep(ctx) }

// Wait returns a job when it has ended.
func (s *Store) Wait(ctx context.Context, id int64) (*dibs.RawJob, error) {
	return s.common().Wait(ctx, id)
}

// Get returns one job in any state.
func (s *Store) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	return s.reads().Get(ctx, id)
}

// Before returns a page of the jobs that a job comes after: see dibs.BeforeStore.
func (s *Store) Before(ctx context.Context, id, after int64, n int) (jobs []*dibs.RawJob, next int64, err error) {
	return s.reads().Before(ctx, id, after, n)
}

// List returns a page of jobs, newest first.
func (s *Store) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	return s.reads().List(ctx, f)
}

// Cancel ends jobs that wait, and asks the holders of running ones to stop.
func (s *Store) Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error) {
	return s.common().Cancel(ctx, ids)
}

// Requeue puts jobs back to waiting that ended at until or before.
func (s *Store) Requeue(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	return s.common().Requeue(ctx, ids, until)
}

// DeleteEnded deletes jobs that ended at until or before.
func (s *Store) DeleteEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	return s.common().DeleteEnded(ctx, ids, until)
}

// Edit changes the priority or run_at of jobs that wait.
func (s *Store) Edit(ctx context.Context, ids []int64, e admin.Edit) ([]int64, error) {
	return s.common().Edit(ctx, ids, e)
}

// Prune deletes final jobs that finished longer than olderThan ago.
// Its transactions are short, and let other writes in between.
func (s *Store) Prune(ctx context.Context, queue string, state dibs.State, olderThan time.Duration) (int, error) {
	return s.common().Prune(ctx, queue, state, olderThan)
}

// Queues lists queues by name with their settings: all, or those of the names that there are.
func (s *Store) Queues(ctx context.Context, names ...string) ([]dibs.Queue, error) {
	return s.reads().Queues(ctx, names...)
}

// ChangeQueue has f change a queue's settings: see dibs.Database.
func (s *Store) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	return s.common().ChangeQueue(ctx, name, f)
}

// Stats counts every queue, by name.
func (s *Store) Stats(ctx context.Context) ([]admin.QueueStats, error) { return s.reads().Stats(ctx) }

// DeleteQueue deletes a queue that nothing needs: see admin.Admin.
func (s *Store) DeleteQueue(ctx context.Context, name string, ended bool) error {
	return s.common().DeleteQueue(ctx, name, ended)
}

// ChangeGroup has f change the settings of one group: see dibs.Database.
func (s *Store) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	return s.common().ChangeGroup(ctx, queue, group, f)
}

// Groups lists the groups of a queue that have settings of their own.
func (s *Store) Groups(ctx context.Context, queue string) ([]dibs.Group, error) {
	return s.reads().Groups(ctx, queue)
}

// Backlogs counts the blocked jobs of the groups of a queue that have any.
func (s *Store) Backlogs(ctx context.Context, queue, after string) ([]admin.Backlog, error) {
	return s.reads().Backlogs(ctx, queue, after)
}

// History counts what happened in each of the last minutes.
func (s *Store) History(ctx context.Context, queues []string, since time.Duration) ([]admin.Minute, error) {
	return s.reads().History(ctx, queues, since)
}

// Failures lists how dead jobs have ended, last died first.
func (s *Store) Failures(ctx context.Context, f admin.FailureFilter) ([]admin.Failure, error) {
	return s.reads().Failures(ctx, f)
}

// Times computes how long the last completed jobs of a queue waited and ran.
func (s *Store) Times(ctx context.Context, queue string) (admin.Times, error) {
	return s.reads().Times(ctx, queue)
}

// Schedules lists all schedules, or some: see dibs.Schedules.
func (s *Store) Schedules(ctx context.Context, names ...string) ([]dibs.Schedule, error) {
	return s.reads().Schedules(ctx, names...)
}

// SetSchedule makes a schedule or replaces the one of that name: see dibs.Schedules.
func (s *Store) SetSchedule(ctx context.Context, next dibs.Schedule, queues ...string) (dibs.Schedule, error) {
	return s.common().SetSchedule(ctx, next, queues...)
}

// ChangeSchedule has f change a schedule: see dibs.Schedules.
func (s *Store) ChangeSchedule(ctx context.Context, name string, f func(*dibs.Schedule) error) (dibs.Schedule, error) {
	return s.common().ChangeSchedule(ctx, name, f)
}

// SetSchedules makes an owner's schedules those of the list: see dibs.Schedules.
func (s *Store) SetSchedules(ctx context.Context, owner string, list []dibs.Schedule) error {
	return s.common().SetSchedules(ctx, owner, list)
}

// DeleteSchedule deletes a schedule. Its jobs stay.
func (s *Store) DeleteSchedule(ctx context.Context, name string, queues ...string) error {
	return s.common().DeleteSchedule(ctx, name, queues...)
}

// RunSchedule enqueues a schedule's job now: see dibs.Schedules.
func (s *Store) RunSchedule(ctx context.Context, name string, queues ...string) (done dibs.Enqueued, err error) {
	return s.common().RunSchedule(ctx, name, queues...)
}

// NextTicks lists the next ticks of a schedule: see dibs.Schedules.
func (s *Store) NextTicks(ctx context.Context, of dibs.Schedule, n int) ([]time.Time, error) {
	return s.reads().NextTicks(ctx, of, n)
}

// Register writes entries of the register: see dibs.Store.
func (s *Store) Register(ctx context.Context, workers ...dibs.WorkerInfo) error {
	return s.common().Register(ctx, workers...)
}

// Workers lists the register of workers: see admin.Admin.
func (s *Store) Workers(ctx context.Context) ([]dibs.WorkerInfo, error) {
	return s.reads().Workers(ctx)
}

// DueKinds lists the kinds of due jobs: see admin.Admin.
func (s *Store) DueKinds(ctx context.Context, queue string) ([]string, error) {
	return s.reads().DueKinds(ctx, queue)
}

// NoteChange notes what somebody has changed: see admin.Admin.
func (s *Store) NoteChange(ctx context.Context, c admin.Change) error {
	return s.common().NoteChange(ctx, c)
}

// Changes lists what somebody has changed: see admin.Admin.
func (s *Store) Changes(ctx context.Context, n int) ([]admin.Change, error) {
	return s.reads().Changes(ctx, n)
}

// Check looks for anything in the database that breaks an invariant.
func (s *Store) Check(ctx context.Context) ([]string, error) { return s.reads().Check(ctx) }

// Repair mends what Check finds after rows were deleted or inserted by hand, and returns
// those findings, one line each: jobs that nobody would ever claim or expire, counts that
// differ from the rows, and groups that have free places but wait. Workers may run meanwhile, and it reads all
// rows. The command dibs check --repair calls it.
func (s *Store) Repair(ctx context.Context) ([]string, error) { return s.common().Repair(ctx) }

// Followers counts the blocked jobs of a queue that come after others.
func (s *Store) Followers(ctx context.Context, queue string) (int, error) {
	return s.reads().Followers(ctx, queue)
}

// Flow counts the jobs around one: see admin.Admin.
func (s *Store) Flow(ctx context.Context, id int64, most int) (admin.Flow, error) {
	return s.reads().Flow(ctx, id, most)
}

// FlowJobs lists the jobs of a flow: see admin.Admin.
func (s *Store) FlowJobs(ctx context.Context, flow int64, state dibs.State, before int64) ([]int64, error) {
	return s.reads().FlowJobs(ctx, flow, state, before)
}
