package reads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/ticks"
	"github.com/dibs-queue/dibs/internal/waits"
)

// jobRow reads the rows of get.sql, wait.sql and the lists, all into the same variables: allocating new ones for each
// row takes longer than all else. A row has: whether it has no job, the id, how many other jobs the job waits
// for, and the columns of the view of live or of ended jobs.
type jobRow struct {
	only             bool // the row has an id but no job
	id               int64
	job              dibs.RawJob
	errors, progress []byte
	to               []any
}

func (r *jobRow) columns() []any {
	j := &r.job
	return []any{
		&r.only, &r.id, Number(&j.WaitsFor), Number(&j.ID), Text(&j.Queue), Text(&j.Kind), Text(&j.State), (*[]byte)(&j.Payload), (*[]byte)(&j.Metadata),
		Number(&j.Priority), Time(&j.RunAt), Number(&j.Attempt), Number(&j.Excused), Number(&j.MaxAttempts), Text(&j.Group),
		Number(&j.GroupLimit), Text(&j.UniqueKey), Text(&j.UniqueUntil), Text(&j.Worker), Token(&j.Token), Time(&j.LeaseUntil),
		Bool(&j.CancelRequested), Time(&j.CreatedAt), Time(&j.ClaimedAt), Time(&j.FinishedAt), &r.errors, (*[]byte)(&j.Result), &r.progress,
		Time(&j.HeldUntil), Time(&j.UniqueFreeAt), Number(&j.Flow), Number(&j.Cause),
	}
}

// read returns the job of a row. If the row has no job, it returns one with only the id and, in lists, the place.
func (r *jobRow) read(c Calls, scan Scan) (*dibs.RawJob, error) {
	if r.to == nil {
		r.to = r.columns()
	}
	r.job = dibs.RawJob{}
	if err := scan(r.to...); err != nil {
		return nil, err
	}
	job := r.job
	j := &job
	if j.ID = r.id; r.only {
		return j, nil
	}
	j.Errors = checks.ReadHistory(r.errors)
	if c.Now != nil {
		now := c.Now()
		for _, at := range []*time.Time{&j.HeldUntil, &j.UniqueFreeAt} {
			if at.Before(now) {
				*at = time.Time{}
			}
		}
	}
	checks.Legible(j)
	ticks.Read(j)
	checks.ReadProgress(j, r.progress)
	return j, nil
}

// jobs is a statement that reads jobs into to. Rows without a job, which have only an id and, in lists, a place, go to
// apart.
func (c Calls) jobs(to, apart *[]*dibs.RawJob, name string, args ...any) Statement {
	var row jobRow
	return Statement{Name: name, Args: args, Begin: func() { *to, *apart = []*dibs.RawJob{}, nil }, Row: func(scan Scan) error {
		j, err := row.read(c, scan)
		switch {
		case err != nil:
		case row.only:
			*apart = append(*apart, j)
		default:
			*to = append(*to, j)
		}
		return err
	}}
}

// Get returns one job in any state, or dibs.ErrNotFound.
func (c Calls) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	if err := c.Ready(ctx, "get"); err != nil {
		return nil, err
	}
	var found, none []*dibs.RawJob
	if err := c.Read(ctx, c.jobs(&found, &none, "get", id)); err != nil {
		return nil, c.Failed("get", err)
	}
	if len(found) == 0 {
		return nil, checks.Failed(fmt.Sprint("job ", id), dibs.ErrNotFound)
	}
	return found[0], nil
}

// Ended finds those of the jobs that have ended, and those that the database does not have.
func (c Calls) Ended(ctx context.Context, ids []int64) (found waits.Found, err error) {
	if err := c.Ready(ctx, ""); err != nil {
		return found, err
	}
	var missing []*dibs.RawJob
	err = c.Read(ctx, c.jobs(&found.Ended, &missing, "wait", ids, waits.MaxFound))
	for _, j := range missing {
		found.Missing = append(found.Missing, j.ID)
	}
	return found, c.Failed("", err)
}

// Before returns a page of the jobs that a job comes after: see dibs.BeforeStore.
func (c Calls) Before(ctx context.Context, id, after int64, n int) (page []*dibs.RawJob, next int64, err error) {
	if err := c.Ready(ctx, "before"); err != nil {
		return nil, 0, err
	}
	if err := checks.Before(id, after, n); err != nil {
		return nil, 0, err
	}
	var gone []*dibs.RawJob
	if err := c.Read(ctx, c.jobs(&page, &gone, "before", id, after, n)); err != nil {
		return nil, 0, c.Failed("before", err)
	}
	if len(page)+len(gone) < n {
		return page, 0, nil
	}
	for _, rows := range [][]*dibs.RawJob{page, gone} {
		if len(rows) > 0 {
			next = max(next, rows[len(rows)-1].ID)
		}
	}
	return page, next, nil
}

// holder returns the job that holds a unique key, if one does.
func (c Calls) holder(ctx context.Context, queue, key string) ([]*dibs.RawJob, error) {
	var ids []int64
	err := c.Read(ctx, rows(&ids, One, "key_holder", queue, key))
	if err != nil || len(ids) == 0 {
		return []*dibs.RawJob{}, c.Failed("list", err)
	}
	j, err := c.Get(ctx, ids[0])
	if errors.Is(err, dibs.ErrNotFound) {
		return []*dibs.RawJob{}, nil
	}
	return []*dibs.RawJob{j}, err
}
