package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/ticks"
	"github.com/jackc/pgx/v5/pgtype"
)

// Get implements dibs.Admin.
func (s *Store) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	if err := s.check(ctx, "get"); err != nil {
		return nil, err
	}
	list, _, err := s.list(ctx, "get", id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, checks.Failed(fmt.Sprint("job ", id), dibs.ErrNotFound)
	}
	return list[0], nil
}

// List implements dibs.Admin.
func (s *Store) List(ctx context.Context, f dibs.Filter) (page dibs.Page, err error) {
	if err := s.check(ctx, "list"); err != nil {
		return page, err
	}
	if err := checks.Filter(&f); err != nil {
		return page, err
	}
	if f.UniqueKey != "" {
		page.Jobs, err = s.listKey(ctx, f)
		return page, err
	}
	at, id, err := readCursor(f)
	if err != nil {
		return page, err
	}
	most := f.Limit + 1 // one job more shows that there is another page
	var list []*dibs.RawJob
	var searched bool
	look, _ := checks.Looked(f)
	switch {
	case f.State.Final():
		if !f.FinishedBefore.IsZero() && f.FinishedBefore.Before(at) {
			at, id = f.FinishedBefore, math.MinInt64
		}
		list, searched, err = s.list(ctx, "list_finished", f.Queue, f.Kind, f.Group, string(f.State), at, id, most, look, f.Worker, f.Error, f.Payload, f.FinishedSince)
	case f.State == dibs.Running:
		list, searched, err = s.list(ctx, "list_running", f.Queue, f.Kind, f.Group, id, most, look, f.Worker, f.Error, f.Payload)
	default:
		list, searched, err = s.list(ctx, "list_live", f.Queue, f.Kind, f.Group, string(f.State), id, most, look, f.Worker, f.Error, f.Payload, f.Scheduled)
	}
	if err != nil {
		return page, err
	}
	if n := len(list) - 1; searched {
		if f.State.Final() {
			list[n].ID++ // the next page begins with this job
		}
		page.Next, list = writeCursor(f, list[n]), list[:n]
	} else if len(list) == most {
		list = list[:f.Limit]
		page.Next = writeCursor(f, list[f.Limit-1])
	}
	page.Jobs = list
	return page, nil
}

// listKey lists the job that holds a unique key, if one does.
func (s *Store) listKey(ctx context.Context, f dibs.Filter) ([]*dibs.RawJob, error) {
	var id int64
	err := s.db.run(ctx, step{
		sql: s.sql.get("key_holder"), args: []any{f.Queue, f.UniqueKey}, begin: func() { id = 0 },
		row: func(scan func(...any) error) error { return scan(&id) },
	})
	if err != nil || id == 0 {
		return nil, classify("list", err)
	}
	j, err := s.Get(ctx, id)
	if errors.Is(err, dibs.ErrNotFound) {
		return nil, nil
	}
	return []*dibs.RawJob{j}, err
}

// writeCursor returns the id of a page's last job; a finished one has its time before the id.
func writeCursor(f dibs.Filter, j *dibs.RawJob) string {
	if f.State.Final() {
		return fmt.Sprintf("%d.%d", j.FinishedAt.UnixMicro(), j.ID)
	}
	return strconv.FormatInt(j.ID, 10)
}

func readCursor(f dibs.Filter) (at time.Time, id int64, err error) {
	if f.After == "" {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64, nil
	}
	first, second, found := strings.Cut(f.After, ".")
	a, errA := strconv.ParseInt(first, 10, 64)
	b, errB := int64(0), error(nil)
	if found {
		b, errB = strconv.ParseInt(second, 10, 64)
	}
	if errA != nil || errB != nil || found != f.State.Final() {
		return at, 0, &dibs.InvalidError{Field: "after", Reason: "is not the end of a page of this list"}
	}
	if found {
		return time.UnixMicro(a), b, nil
	}
	return at, a, nil
}

// list returns jobs. If searched, the last is no result: it marks how far the statement has looked.
func (s *Store) list(ctx context.Context, name string, args ...any) (jobs []*dibs.RawJob, searched bool, err error) {
	err = s.db.run(ctx, step{
		sql: s.sql.get(name), args: args,
		begin: func() { jobs, searched = []*dibs.RawJob{}, false },
		row: func(scan func(...any) error) error {
			j, last, err := scanJob(scan)
			jobs, searched = append(jobs, j), last
			return err
		},
	})
	if err != nil {
		return nil, false, classify("read jobs", err)
	}
	return jobs, searched, nil
}

// scanJob reads a row of get.sql or of a list statement. If searched, the row marks how far
// the statement has looked, and may have nothing but an id.
func scanJob(scan func(...any) error) (j *dibs.RawJob, searched bool, err error) {
	var id int64
	var own pgtype.Int8
	var queue, kind, state, group, key, until, worker pgtype.Text
	var payload, metadata, errors, result, progress []byte
	var priority, attempt, excused, maxAttempts, groupLimit pgtype.Int4
	var runAt, lease, created, claimed, finished, held, free pgtype.Timestamptz
	var token pgtype.UUID
	var cancel pgtype.Bool
	err = scan(&searched, &id, &own, &queue, &kind, &state, &payload, &metadata, &priority, &runAt, &attempt,
		&excused, &maxAttempts, &group, &groupLimit, &key, &until, &worker, &token,
		&lease, &cancel, &created, &claimed, &finished, &errors, &result, &progress, &held, &free)
	if err != nil {
		return nil, false, err
	}
	j = &dibs.RawJob{
		ID: id, Queue: queue.String, Kind: kind.String, State: dibs.State(state.String), Payload: payload, Metadata: metadata,
		Priority: int(priority.Int32), RunAt: utc(runAt), Attempt: int(attempt.Int32), Excused: int(excused.Int32),
		MaxAttempts: int(maxAttempts.Int32), Group: group.String, GroupLimit: int(groupLimit.Int32),
		UniqueKey: key.String, UniqueUntil: dibs.UniqueUntil(until.String), UniqueFreeAt: utc(free), Worker: worker.String, Token: token.Bytes,
		LeaseUntil: utc(lease), CancelRequested: cancel.Bool, CreatedAt: utc(created), ClaimedAt: utc(claimed),
		FinishedAt: utc(finished), Errors: checks.ReadHistory(errors), Result: result, HeldUntil: utc(held),
	}
	checks.Legible(j)
	ticks.Read(j)
	checks.ReadProgress(j, progress)
	return j, searched, nil
}

// Cancel implements dibs.Admin.
func (s *Store) Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error) {
	var c changedJobs
	err = s.change(ctx, "cancel", ids, nil, &c)
	c.done(s) // a cancelled job may have made room in its group
	for _, j := range c.jobs {
		if j.state == dibs.Running {
			asked = append(asked, j.id)
		} else {
			ended = append(ended, j.id)
		}
	}
	slices.Sort(ended)
	slices.Sort(asked)
	if len(ended) > 0 {
		s.waits.Ended(func() []int64 { return ended })
	}
	return ended, asked, err
}

// Requeue implements dibs.Admin.
func (s *Store) Requeue(ctx context.Context, ids []int64) ([]int64, error) {
	return s.RequeueEnded(ctx, ids, time.Time{})
}

// RequeueEnded implements dibs.Admin.
func (s *Store) RequeueEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	var c changedJobs
	err := s.changeEnded(ctx, "requeue", ids, until, &c)
	return c.done(s), err
}

// changeEnded changes jobs that ended at until or before, or whenever they ended if it is zero.
func (s *Store) changeEnded(ctx context.Context, name string, ids []int64, until time.Time, c *changedJobs) error {
	if err := checks.Until(until); err != nil {
		return err
	}
	var latest any
	if !until.IsZero() {
		latest = until
	}
	return s.change(ctx, name, ids, []any{latest}, c)
}

// Edit implements dibs.Admin.
func (s *Store) Edit(ctx context.Context, ids []int64, e dibs.Edit) ([]int64, error) {
	if err := checks.Edit(ids, e); err != nil {
		return nil, err
	}
	var c changedJobs
	err := s.change(ctx, "edit", ids, []any{e.Priority, e.RunAt}, &c)
	return c.done(s), err
}

// changedJobs collects the jobs that an operator's statement has changed.
type changedJobs struct {
	jobs []changedJob
}

type changedJob struct {
	id       int64
	queue    string
	priority *int16     // set by edit.sql only
	state    dibs.State // set by cancel.sql only
}

func (c *changedJobs) scan(name string, scan func(...any) error) error {
	var j changedJob
	to := []any{&j.id, &j.queue}
	switch name {
	case "edit":
		to = append(to, &j.priority)
	case "cancel":
		to = append(to, &j.state)
	}
	err := scan(to...)
	c.jobs = append(c.jobs, j)
	return err
}

// done has workers look for the jobs that were put back or moved, and returns their ids.
func (c *changedJobs) done(s *Store) []int64 {
	queues := map[string]bool{}
	for _, j := range c.jobs {
		if queues[j.queue] = true; j.priority != nil {
			s.queues.addLane(j.queue, *j.priority)
		}
	}
	for queue := range queues {
		s.Wake(queue)
	}
	return c.ids()
}

func (c *changedJobs) ids() []int64 {
	ids := []int64{}
	for _, j := range c.jobs {
		ids = append(ids, j.id)
	}
	slices.Sort(ids)
	return ids
}

// DeleteEnded implements dibs.Admin.
func (s *Store) DeleteEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	var c changedJobs
	err := s.changeEnded(ctx, "delete", ids, until, &c)
	return c.ids(), err
}

// Prune implements dibs.Admin.
func (s *Store) Prune(ctx context.Context, queue string, state dibs.State, olderThan time.Duration) (int, error) {
	if err := s.check(ctx, "prune", checks.Prune(queue, state, olderThan)); err != nil {
		return 0, err
	}
	total, size := 0, pruneBatch
	for {
		n := 0
		err := s.db.run(ctx, step{
			sql:  s.sql.get("prune"),
			args: []any{queue, string(state), olderThan.Microseconds(), size},
			row:  func(scan func(...any) error) error { return scan(&n) },
		})
		if fewer, ok := smaller(err, size); ok {
			size = fewer
			continue
		}
		if err != nil {
			return total, classify("prune", err)
		}
		if total += n; n == 0 {
			return total, nil
		}
	}
}

// Stats implements dibs.Admin.
func (s *Store) Stats(ctx context.Context) ([]dibs.QueueStats, error) {
	if err := s.check(ctx, "stats"); err != nil {
		return nil, err
	}
	list := []dibs.QueueStats{}
	err := s.db.run(ctx, step{sql: s.sql.get("stats"), args: []any{dibs.ScheduledCap + 1}, row: func(scan func(...any) error) error {
		q, err := scanStats(scan)
		list = append(list, q)
		return err
	}}, s.heldStep(&list))
	if err != nil {
		return nil, classify("stats", err)
	}
	return list, nil
}

func scanStats(scan func(...any) error) (dibs.QueueStats, error) {
	var q dibs.QueueStats
	var age, window, wait, run int64
	err := scan(&q.Queue, &q.Paused, &q.Waiting, &q.Scheduled, &q.Blocked, &q.Running, &q.Completed, &q.Dead, &q.Cancelled,
		&age, &window, &q.Enqueued, &q.Claimed, &q.Succeeded, &q.Failed, &wait, &run)
	if q.Scheduled > dibs.ScheduledCap {
		q.Scheduled, q.ScheduledMore = dibs.ScheduledCap, true
	}
	q.OldestAge, q.Window = us(age), us(window)
	checks.Counts(&q)
	if q.Claimed > 0 {
		q.AvgWait = us(wait / q.Claimed)
	}
	if n := q.Succeeded + q.Failed; n > 0 {
		q.AvgRun = us(run / n)
	}
	if window > 0 {
		q.Throughput = float64(q.Succeeded) / us(window).Seconds()
	}
	return q, err
}
