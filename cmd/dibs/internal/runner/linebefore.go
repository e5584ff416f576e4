package runner

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// beforeAsk asks for a page of the jobs that a job comes after.
type beforeAsk struct {
	After lineID `json:"after"` // the next of the page before; 0: the first page
	Limit *int   `json:"limit"` // how many jobs, 1 to 1,000; default 100
}

const (
	firstBefore = 32      // how many jobs are read at first, as long as nothing tells how large they are
	beforeBytes = 4 << 20 // a page of this size takes no more jobs
)

// heed does what a process asks for while it has a job.
func (p *lineProcess) heed(ctx context.Context, j *lineJob, a lineAnswer) {
	if a.Step != "" {
		p.putStep(ctx, j, a)
		return
	}
	answer := struct {
		ID     lineID      `json:"id"`
		Token  dibs.Token  `json:"token"`
		Before *admin.Page `json:"before,omitempty"`
		Error  string      `json:"error,omitempty"`
	}{ID: lineID(j.job.ID), Token: j.job.Token}
	if a.wrong != nil {
		answer.Error = a.wrong.Error()
	} else if page, err := p.pool.before(ctx, j.job.ID, *a.Before); err != nil {
		answer.Error = err.Error()
	} else {
		answer.Before = &page
	}
	p.reply(answer)
}

// The method before reads a page of the jobs that a job comes after. If they are large, it has fewer than asked for.
func (w *Lines) before(ctx context.Context, id int64, ask beforeAsk) (admin.Page, error) {
	page := admin.Page{Jobs: []*dibs.RawJob{}}
	store, ok := w.Store.(dibs.BeforeStore)
	if !ok {
		return page, errors.New("rows of adopted tables come after no other jobs")
	}
	limit, after, size := 100, int64(ask.After), 0
	if ask.Limit != nil {
		limit = *ask.Limit
	}
	if limit < 1 || limit > 1000 {
		return page, &dibs.InvalidError{Field: "before.limit", Reason: fmt.Sprintf("must be 1 to 1000, got %d", limit)}
	}
	for n := min(limit, firstBefore); n > 0; n = min(limit-len(page.Jobs), (beforeBytes-size)*len(page.Jobs)/size) {
		jobs, next, err := store.Before(ctx, id, after, n)
		if err != nil {
			return page, err
		}
		for _, b := range jobs {
			b.Token = dibs.Token{}
			size += sizeOf(b)
		}
		after, page.Jobs, page.Next = next, append(page.Jobs, jobs...), ""
		if next > 0 {
			page.Next = strconv.FormatInt(next, 10)
		}
		if next == 0 || len(jobs) == 0 {
			break
		}
	}
	return page, nil
}

// sizeOf is about how many bytes a job takes.
func sizeOf(j *dibs.RawJob) int {
	size := 1000 + len(j.Payload) + len(j.Metadata) + len(j.Result)
	for i := range j.Errors {
		size += len(j.Errors[i].Error)
	}
	return size
}
