package adopt_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/checks"
)

var _ admin.Database = (*harness)(nil)

var errHarness = fmt.Errorf("an adopted table has no such thing: %w", errors.ErrUnsupported)

// each calls f for each queue of the jobs, with the ids of its jobs.
func (h *harness) each(ctx context.Context, ids []int64, f func(s *adopt.Store, in func(id int64) bool) error) error {
	raw, _ := json.Marshal(append([]int64{}, ids...)) // no error: they are numbers
	text, args := h.numbered("select id, queue from work where "+h.among("$1"), string(raw))
	rows, err := h.db.QueryContext(ctx, text, args...)
	if err != nil {
		return cmp.Or(ctx.Err(), err) // a context that ends while a connection is made gives the network's error
	}
	defer rows.Close()
	queues, of := map[string]bool{dibs.DefaultQueue: true}, map[int64]string{}
	for rows.Next() {
		var id int64
		var queue string
		if err := rows.Scan(&id, &queue); err != nil {
			return err
		}
		queues[queue], of[id] = true, queue
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for queue := range queues {
		s, err := h.store(ctx, queue, true)
		if err == nil {
			err = f(s, func(id int64) bool { return of[id] == queue || of[id] == "" && queue == dibs.DefaultQueue })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *harness) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if _, err := checks.Outcomes(slices.Clone(outcomes)); err != nil {
		return err
	}
	ids := make([]int64, len(outcomes))
	for i, o := range outcomes {
		ids[i] = o.ID
	}
	var lost []int64
	err := h.each(ctx, ids, func(s *adopt.Store, in func(int64) bool) error {
		var own []dibs.Outcome
		for _, o := range outcomes {
			if in(o.ID) {
				own = append(own, o)
			}
		}
		// As a worker does, the harness tries locked rows again.
		for {
			err := s.Finish(ctx, own)
			refused := (*dibs.FinishError)(nil)
			if !errors.As(err, &refused) {
				return err
			}
			lost = append(lost, refused.Lost...)
			own = slices.DeleteFunc(own, func(o dibs.Outcome) bool { return !slices.Contains(refused.Unwritten, o.ID) })
		}
	})
	if err == nil && len(lost) > 0 {
		return &dibs.FinishError{Lost: lost}
	}
	return err
}

func (h *harness) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (all dibs.Extended, err error) {
	ids := make([]int64, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	err = h.each(ctx, ids, func(s *adopt.Store, in func(int64) bool) error {
		var own []dibs.Lease
		for _, l := range leases {
			if in(l.ID) {
				own = append(own, l)
			}
		}
		x, err := s.Extend(ctx, own, d)
		all.Lost, all.Finishing = append(all.Lost, x.Lost...), append(all.Finishing, x.Finishing...)
		return err
	})
	return all, err
}

func (h *harness) Sweep(ctx context.Context) (all dibs.Swept, err error) {
	queues, _ := h.Queues(ctx)
	for _, q := range queues {
		s, err := h.store(ctx, q.Name, false)
		if err != nil {
			return all, err
		}
		swept, err := s.Sweep(ctx)
		if err != nil {
			return all, err
		}
		all.Expired += swept.Expired
		all.Busy = all.Busy || swept.Busy
	}
	return all, nil
}

func (h *harness) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	var job *dibs.RawJob
	err := h.each(ctx, []int64{id}, func(s *adopt.Store, in func(int64) bool) (err error) {
		if in(id) {
			job, err = s.Get(ctx, id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return job, h.complete(ctx, []*dibs.RawJob{job})
}

func (h *harness) Wait(ctx context.Context, id int64) (*dibs.RawJob, error) {
	var job *dibs.RawJob
	err := h.each(ctx, []int64{id}, func(s *adopt.Store, in func(int64) bool) (err error) {
		if in(id) {
			job, err = s.Wait(ctx, id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return job, h.complete(ctx, []*dibs.RawJob{job})
}

func (h *harness) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	s, err := h.store(ctx, f.Queue, true)
	if err != nil {
		return admin.Page{}, err
	}
	f.Queue = s.Queue()
	page, err := s.List(ctx, f)
	if err != nil {
		return page, err
	}
	return page, h.complete(ctx, page.Jobs)
}

func (h *harness) Stats(ctx context.Context) (all []admin.QueueStats, err error) {
	queues, _ := h.Queues(ctx)
	for _, q := range queues {
		s, err := h.store(ctx, q.Name, false)
		if err != nil {
			return nil, err
		}
		stats, err := s.Stats(ctx)
		if err != nil {
			return nil, err
		}
		count := "select count(case when status = 'completed' then 1 end), count(case when status = 'dead' then 1 end), count(case when status = 'cancelled' then 1 end) from work where queue = $1"
		text, args := h.numbered(count, q.Name)
		if err := h.db.QueryRowContext(ctx, text, args...).Scan(&stats[0].Completed, &stats[0].Dead, &stats[0].Cancelled); err != nil {
			return nil, err
		}
		all = append(all, stats[0])
	}
	return all, nil
}

func (h *harness) Queues(context.Context, ...string) (all []dibs.Queue, err error) {
	h.Lock()
	defer h.Unlock()
	for _, q := range h.queues {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b dibs.Queue) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all, nil
}

// ChangeQueue changes the settings in the mapping.
func (h *harness) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	if _, err := h.store(ctx, name, true); err != nil {
		return dibs.Queue{}, err
	}
	h.Lock()
	defer h.Unlock()
	before := h.queues[name]
	q, err := checks.Changed(before, f)
	if q.Paused != before.Paused || q.Strict != before.Strict || q.Order != before.Order || q.KeepCompleted != before.KeepCompleted ||
		q.PayloadLimit != before.PayloadLimit || q.JobTimeout != before.JobTimeout || q.GroupRate != before.GroupRate {
		return dibs.Queue{}, errHarness
	}
	if err == nil {
		h.queues[name] = q
		h.version[name]++
	}
	return q, err
}

// Edit changes rows with SQL, as another program would, and also the side table.
func (h *harness) Edit(ctx context.Context, ids []int64, e admin.Edit) (changed []int64, err error) {
	for _, id := range ids {
		if e.Priority != nil {
			if err := h.exec(ctx, "update work set priority = $1 where id = $2", *e.Priority, id); err != nil {
				return nil, err
			}
		}
		if e.RunAt == nil {
			continue
		}
		at := h.at(fmt.Sprintf("case when %d > %%[1]s then %[1]d else %%[1]s end", e.RunAt.UnixMicro()))
		if err := h.exec(ctx, "update work set run_at = "+at+" where id = $1", id); err != nil {
			return nil, err
		}
		if h.side {
			if err := h.exec(ctx, "update dibs_adopted set run_at = 0 where dibs_adopted.key = $1", fmt.Sprintf("[%d]", id)); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

func (h *harness) Wakeups(queue string) (<-chan struct{}, func()) {
	s, err := h.store(context.Background(), queue, true)
	if err != nil {
		c := make(chan struct{})
		close(c)
		return c, func() {}
	}
	return s.Wakeups(queue)
}

func (h *harness) Wake(queue string) {
	if s, err := h.store(context.Background(), queue, true); err == nil {
		s.Wake(queue)
	}
}

func (h *harness) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, s := range h.stores {
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (h *harness) Check(context.Context) ([]string, error) { return nil, nil }

func (h *harness) Cancel(context.Context, []int64) (ended, asked []int64, err error) {
	return nil, nil, errHarness
}

func (h *harness) Prune(context.Context, string, dibs.State, time.Duration) (int, error) {
	return 0, errHarness
}

func (h *harness) DeleteQueue(context.Context, string, bool) error { return errHarness }

func (h *harness) ChangeGroup(context.Context, string, string, func(*dibs.Group) error) error {
	return errHarness
}

func (h *harness) History(context.Context, []string, time.Duration) ([]admin.Minute, error) {
	return nil, errHarness
}

func (h *harness) NoteChange(context.Context, admin.Change) error { return errHarness }

func (h *harness) Changes(context.Context, int) ([]admin.Change, error) { return nil, errHarness }

func (h *harness) Failures(context.Context, admin.FailureFilter) ([]admin.Failure, error) {
	return nil, errHarness
}

func (h *harness) Times(context.Context, string) (admin.Times, error) {
	return admin.Times{}, errHarness
}

func (h *harness) Requeue(context.Context, []int64, time.Time) ([]int64, error) {
	return nil, errHarness
}

func (h *harness) DeleteEnded(context.Context, []int64, time.Time) ([]int64, error) {
	return nil, errHarness
}

func (h *harness) Groups(context.Context, string) ([]dibs.Group, error) { return nil, errHarness }

func (h *harness) Backlogs(context.Context, string, string) ([]admin.Backlog, error) {
	return nil, errHarness
}

func (h *harness) Followers(context.Context, string) (int, error) { return 0, errHarness }

func (h *harness) Flow(context.Context, int64, int) (admin.Flow, error) {
	return admin.Flow{}, errHarness
}

func (h *harness) Before(context.Context, int64, int64, int) ([]*dibs.RawJob, int64, error) {
	return nil, 0, errHarness
}

func (h *harness) Steps(context.Context, dibs.Lease) ([]dibs.StepDone, error) { return nil, errHarness }

func (h *harness) PutStep(context.Context, dibs.Lease, string, json.RawMessage) error {
	return errHarness
}

func (h *harness) FlowJobs(context.Context, int64, dibs.State, int64) ([]int64, error) {
	return nil, errHarness
}

func (h *harness) InTx(context.Context, func(dibs.Tx) error) error { return errHarness }
