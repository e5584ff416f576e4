package postgres

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/reads"
)

// reader runs the statements of internal/reads; those of one call run in one transaction.
type reader struct {
	s  *Store
	on func(*Store) conn
}

func (s *Store) readsOn(on func(*Store) conn) reads.Calls {
	return reads.Calls{Database: reader{s, on}}
}

func (s *Store) reads() reads.Calls { return s.readsOn(func(s *Store) conn { return s.db }) }

// upkeepReads run on connections that no caller's transaction holds.
func (s *Store) upkeepReads() reads.Calls {
	return s.readsOn(func(s *Store) conn { return s.upkeep })
}

func (r reader) Ready(ctx context.Context, op string) error { return r.s.ready(ctx, op) }

func (r reader) Failed(op string, err error) error { return wrap(op, err) }

func (r reader) Read(ctx context.Context, all ...reads.Statement) error {
	steps := make([]step, len(all))
	for i, st := range all {
		steps[i] = step{sql: r.s.sql.get(st.Name), args: st.Args, begin: st.Begin, row: st.Row}
	}
	return r.on(r.s).run(ctx, steps...)
}

// Get implements dibs.Database.
func (s *Store) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	return s.reads().Get(ctx, id)
}

// Before implements dibs.BeforeStore.
func (s *Store) Before(ctx context.Context, id, after int64, n int) (jobs []*dibs.RawJob, next int64, err error) {
	return s.reads().Before(ctx, id, after, n)
}

// List implements admin.Admin.
func (s *Store) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	return s.reads().List(ctx, f)
}

// Stats implements admin.Admin.
func (s *Store) Stats(ctx context.Context) ([]admin.QueueStats, error) { return s.reads().Stats(ctx) }

// Groups implements dibs.Database.
func (s *Store) Groups(ctx context.Context, queue string) ([]dibs.Group, error) {
	return s.reads().Groups(ctx, queue)
}

// Backlogs implements admin.Admin.
func (s *Store) Backlogs(ctx context.Context, queue, after string) ([]admin.Backlog, error) {
	return s.reads().Backlogs(ctx, queue, after)
}

// History implements admin.Admin.
func (s *Store) History(ctx context.Context, queues []string, since time.Duration) ([]admin.Minute, error) {
	return s.reads().History(ctx, queues, since)
}

// Failures implements admin.Admin.
func (s *Store) Failures(ctx context.Context, f admin.FailureFilter) ([]admin.Failure, error) {
	return s.reads().Failures(ctx, f)
}

// Times implements admin.Admin.
func (s *Store) Times(ctx context.Context, queue string) (admin.Times, error) {
	return s.reads().Times(ctx, queue)
}

// Schedules implements dibs.Schedules.
func (s *Store) Schedules(ctx context.Context, names ...string) ([]dibs.Schedule, error) {
	return s.reads().Schedules(ctx, names...)
}

// NextTicks implements dibs.Schedules.
func (s *Store) NextTicks(ctx context.Context, of dibs.Schedule, n int) ([]time.Time, error) {
	return s.upkeepReads().NextTicks(ctx, of, n)
}

// Workers implements admin.Admin.
func (s *Store) Workers(ctx context.Context) ([]dibs.WorkerInfo, error) {
	return s.reads().Workers(ctx)
}

// DueKinds implements admin.Admin.
func (s *Store) DueKinds(ctx context.Context, queue string) ([]string, error) {
	return s.reads().DueKinds(ctx, queue)
}

// Changes implements admin.Admin.
func (s *Store) Changes(ctx context.Context, n int) ([]admin.Change, error) {
	return s.reads().Changes(ctx, n)
}

// Followers implements admin.Admin.
func (s *Store) Followers(ctx context.Context, queue string) (int, error) {
	return s.reads().Followers(ctx, queue)
}

// Flow implements admin.Admin.
func (s *Store) Flow(ctx context.Context, id int64, most int) (admin.Flow, error) {
	return s.reads().Flow(ctx, id, most)
}

// FlowJobs implements admin.Admin.
func (s *Store) FlowJobs(ctx context.Context, flow int64, state dibs.State, before int64) ([]int64, error) {
	return s.reads().FlowJobs(ctx, flow, state, before)
}
