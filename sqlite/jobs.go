package sqlite

import (
	"cmp"
	"context"
	"database/sql"
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
		return nil, wrap("get", err)
	}
	if len(jobs) == 0 {
		return nil, checks.Failed(fmt.Sprint("job ", id), dibs.ErrNotFound)
	}
	return jobs[0], nil
}

func (s *Store) readJobs(ctx context.Context, statement string, args ...any) ([]*dibs.RawJob, error) {
	var jobs []*dibs.RawJob
	err := s.read(ctx, statement, func(rows *sql.Rows) error {
		j, err := scanJob(rows)
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
	after, err := parseCursor(f.After)
	if err != nil {
		return dibs.Page{}, err
	}
	var jobs []*dibs.RawJob
	switch {
	case f.State.Final():
		jobs, err = s.listFinished(ctx, f, after)
	case f.State == dibs.Running:
		jobs, err = s.readJobs(ctx, "list_running", f.Queue, f.Kind, f.Group, after.id, f.Limit+1)
	default:
		jobs, err = s.readJobs(ctx, "list_live", f.Queue, f.Kind, f.Group, string(f.State), after.id, f.Limit+1)
	}
	if err != nil {
		return dibs.Page{}, wrap("list", err)
	}
	page := dibs.Page{Jobs: jobs}
	if len(jobs) > f.Limit {
		page.Jobs = jobs[:f.Limit]
		page.Next = cursorOf(page.Jobs[f.Limit-1]).String()
	}
	return page, nil
}

// listFinished merges the queues' lists, each of which is in order.
func (s *Store) listFinished(ctx context.Context, f dibs.Filter, after cursor) ([]*dibs.RawJob, error) {
	names := []string{f.Queue}
	if f.Queue == "" {
		queues, err := s.Queues(ctx)
		if err != nil {
			return nil, err
		}
		names = names[:0]
		for _, q := range queues {
			names = append(names, q.Name)
		}
	}
	var all []*dibs.RawJob
	for _, name := range names {
		jobs, err := s.readJobs(ctx, "list_finished", name, string(f.State), f.Kind, f.Group, after.time, after.id, f.Limit+1)
		if err != nil {
			return nil, err
		}
		all = append(all, jobs...)
	}
	slices.SortFunc(all, func(a, b *dibs.RawJob) int {
		return cmp.Or(b.FinishedAt.Compare(a.FinishedAt), cmp.Compare(b.ID, a.ID))
	})
	return all[:min(len(all), f.Limit+1)], nil
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
