package model

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// theirJobs returns new jobs with the store's ids and times.
func (r *Run) theirJobs(jobs []dibs.NewJob) []dibs.NewJob {
	theirs := slices.Clone(jobs)
	for i := range theirs {
		j := &theirs[i]
		if !j.RunAt.IsZero() {
			j.RunAt = r.theirTime(j.RunAt)
		}
		j.After = slices.Clone(j.After)
		for k := range j.After {
			if d := &j.After[k]; d.ID != 0 {
				d.ID = r.theirID(d.ID)
			}
		}
	}
	return theirs
}

// theirNoJob puts the store's id into the model's error that there is no such job.
func (r *Run) theirNoJob(err error) error {
	var e *dibs.InvalidError
	var id int64
	if !errors.As(err, &e) {
		return err
	}
	if _, other := fmt.Sscanf(e.Reason, "there is no job %d", &id); other != nil {
		return err
	}
	return &dibs.InvalidError{Field: e.Field, Reason: fmt.Sprintf("there is no job %d", r.theirID(id))}
}

// findAdded learns the ids of jobs that outcomes have added, which no answer has. They have only just been added, so none
// has ended.
func (r *Run) findAdded() {
	n := int(r.m.lastID) - len(r.ids)
	if n <= 0 {
		return
	}
	page, err := r.db.List(r.ctx, admin.Filter{Limit: n})
	r.must(err)
	for _, j := range slices.Backward(page.Jobs) {
		r.ids = append(r.ids, j.ID)
	}
}

// DeleteEnded deletes final jobs.
func (r *Run) DeleteEnded(ids ...int64) {
	r.log("DeleteEnded", list(ids)...)
	want := r.m.DeleteEnded(ids)
	got, err := r.db.DeleteEnded(r.ctx, r.theirIDs(ids), time.Time{})
	r.must(err)
	r.same("DeleteEnded", r.ourIDs(got), want)
}
