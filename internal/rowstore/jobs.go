package rowstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Get returns one job in any state.
func (s *Store) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	jobs, err := s.readJobs(ctx, "get", id)
	if err != nil {
		return nil, s.wrap("get", err)
	}
	if len(jobs) == 0 {
		return nil, checks.Failed(fmt.Sprint("job ", id), dibs.ErrNotFound)
	}
	return jobs[0], nil
}

func (s *Store) readJobs(ctx context.Context, statement string, args ...any) ([]*dibs.RawJob, error) {
	var jobs []*dibs.RawJob
	err := s.read(ctx, statement, func(rows *sql.Rows) error {
		j, err := scanJob(rows, s.dialect.Now())
		jobs = append(jobs, j)
		return err
	}, args...)
	return jobs, err
}

// List returns a page of jobs, newest first.
func (s *Store) List(ctx context.Context, f dibs.Filter) (dibs.Page, error) {
	if err := checks.Filter(&f); err != nil {
		return dibs.Page{}, err
	}
	if f.UniqueKey != "" {
		return s.listKey(ctx, f)
	}
	after, err := parseCursor(f.After)
	if err != nil {
		return dibs.Page{}, err
	}
	var jobs []*dibs.RawJob
	var last cursor // where it stops looking, if it does before it has found enough
	switch {
	case f.State.Final():
		jobs, last, err = s.listFinished(ctx, f, after)
	case f.State == dibs.Running:
		jobs, err = s.readJobs(ctx, "list_running", f.Queue, f.Kind, f.Group, after.id, f.Limit+1, f.Worker, f.Error, f.Payload)
	default:
		jobs, last, err = s.listLive(ctx, f, after)
	}
	if err != nil {
		return dibs.Page{}, s.wrap("list", err)
	}
	page := dibs.Page{Jobs: jobs}
	switch {
	case len(jobs) > f.Limit:
		page.Jobs = jobs[:f.Limit]
		page.Next = cursorOf(page.Jobs[f.Limit-1]).String()
	case last != cursor{}:
		page.Next = last.String()
	}
	return page, nil
}

// listKey lists the job that holds a unique key, if one does.
func (s *Store) listKey(ctx context.Context, f dibs.Filter) (page dibs.Page, err error) {
	var id int64
	err = s.read(ctx, "key_holder", func(rows *sql.Rows) error { return rows.Scan(&id) }, f.Queue, f.UniqueKey, s.now())
	if err != nil || id == 0 {
		return page, s.wrap("list", err)
	}
	j, err := s.Get(ctx, id)
	if errors.Is(err, dibs.ErrNotFound) {
		return page, nil
	}
	page.Jobs = []*dibs.RawJob{j}
	return page, err
}

// listLive lists jobs that are not final. If few match, it looks at some first, as many as are
// found quickly, and then at all that it may look at.
func (s *Store) listLive(ctx context.Context, f dibs.Filter, after cursor) (jobs []*dibs.RawJob, last cursor, err error) {
	const few = 1000
	look, narrowed := checks.Looked(f)
	for _, n := range []int{few, look} {
		if narrowed {
			last, err = s.lastOf(ctx, "list_last_live", after.id, n-1)
		}
		if err == nil {
			jobs, err = s.readJobs(ctx, "list_live", f.Queue, f.Kind, f.Group, string(f.State), after.id, f.Limit+1, f.Worker, f.Error, f.Payload, last.id, f.Scheduled, s.now())
		}
		if err != nil || len(jobs) > f.Limit || last == (cursor{}) {
			break
		}
	}
	return jobs, last, err
}

// lastOf returns the last job at which a list looks, or none if there are fewer.
func (s *Store) lastOf(ctx context.Context, statement string, args ...any) (last cursor, err error) {
	err = s.read(ctx, statement, func(rows *sql.Rows) error { return rows.Scan(&last.time, &last.id) }, args...)
	return last, err
}

// listFinished merges the queues' lists, each of which is in order. If a list that few jobs match
// stops early, it does in all queues at the latest place where it does in one.
func (s *Store) listFinished(ctx context.Context, f dibs.Filter, after cursor) (all []*dibs.RawJob, last cursor, err error) {
	names, err := s.namesOf(ctx, f.Queue)
	if err != nil {
		return nil, last, err
	}
	if !f.FinishedBefore.IsZero() && f.FinishedBefore.UnixMicro() < after.time {
		after = cursor{time: f.FinishedBefore.UnixMicro(), id: math.MinInt64}
	}
	since := int64(math.MinInt64)
	if !f.FinishedSince.IsZero() {
		since = f.FinishedSince.UnixMicro()
	}
	if look, narrowed := checks.Looked(f); narrowed {
		for _, name := range names {
			stop, err := s.lastOf(ctx, "list_last_finished", name, string(f.State), after.time, after.id, since, 99+look/len(names))
			if err != nil {
				return nil, last, err
			}
			if stop.compare(last) > 0 {
				last = stop
			}
		}
	}
	least := cursor{time: since, id: math.MinInt64}
	if last.compare(least) > 0 && last != (cursor{}) {
		least = last
	}
	for _, name := range names {
		jobs, err := s.readJobs(ctx, "list_finished", name, string(f.State), f.Kind, f.Group, after.time, after.id, f.Limit+1,
			f.Worker, f.Error, f.Payload, least.time, least.id)
		if err != nil {
			return nil, last, err
		}
		all = append(all, jobs...)
	}
	slices.SortFunc(all, func(a, b *dibs.RawJob) int {
		return cmp.Or(b.FinishedAt.Compare(a.FinishedAt), cmp.Compare(b.ID, a.ID))
	})
	return all[:min(len(all), f.Limit+1)], last, nil
}

// namesOf returns the name of a queue, or of all queues if it is empty.
func (s *Store) namesOf(ctx context.Context, queue string) ([]string, error) {
	if queue != "" {
		return []string{queue}, nil
	}
	queues, err := s.Queues(ctx)
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Name
	}
	return names, err
}

// cursor is a parsed Page.Next: the time and id of a page's last job.
type cursor struct{ time, id int64 }

func cursorOf(j *dibs.RawJob) cursor {
	c := cursor{id: j.ID}
	if j.State.Final() {
		c.time = j.FinishedAt.UnixMicro()
	}
	return c
}

func (c cursor) compare(d cursor) int {
	return cmp.Or(cmp.Compare(c.time, d.time), cmp.Compare(c.id, d.id))
}

func (c cursor) String() string { return fmt.Sprintf("%d.%d", c.time, c.id) }

func parseCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{math.MaxInt64, math.MaxInt64}, nil
	}
	var c cursor
	if n, err := fmt.Sscanf(s, "%d.%d", &c.time, &c.id); n != 2 || err != nil || c.String() != s {
		return c, &dibs.InvalidError{Field: "after", Reason: "is not the Next of a page"}
	}
	return c, nil
}
