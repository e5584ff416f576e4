package server

import (
	"fmt"
	"net/http"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
)

// alone refuses refs in a job that is enqueued by itself: no other job of its call could have them, so it would start
// at once.
func alone(job dibs.NewJob) error {
	for n, d := range job.After {
		if d.Ref != "" {
			return &dibs.InvalidError{
				Field:  fmt.Sprintf("after[%d]", n),
				Reason: "names jobs of the same call by a ref, and this job has a call of its own; give the ids of jobs, or send all of them to /v1/jobs/batch",
			}
		}
	}
	return nil
}

// tooManyAfter refuses the job at place i if those up to it come after more jobs than one call may name.
func tooManyAfter(i, named int) error {
	if named <= dibs.MaxAfter {
		return nil
	}
	return &dibs.InvalidError{
		Field:  fmt.Sprintf("jobs[%d].after", i),
		Reason: fmt.Sprintf("the jobs of one call come after more than %d others in all", dibs.MaxAfter),
	}
}

// mayFollow refuses jobs that come after those of queues that the caller may not use, in the words for jobs that do
// not exist. So the caller does not learn that they do, and nobody keeps foreign jobs from being deleted.
func (s *Server) mayFollow(r *http.Request, jobs []dibs.NewJob) error {
	if !s.limited(r) {
		return nil
	}
	var ids []int64
	seen := map[int64]bool{}
	for i := range jobs {
		for _, d := range jobs[i].After {
			if d.ID == 0 || seen[d.ID] {
				continue
			}
			if seen[d.ID], ids = true, append(ids, d.ID); len(ids) > dibs.MaxBatch {
				return &dibs.InvalidError{
					Field:  fmt.Sprintf("jobs[%d].after", i),
					Reason: fmt.Sprintf("the jobs of one call name more than %d others by ids, and the token is good for some queues only", dibs.MaxBatch),
				}
			}
		}
	}
	own, err := s.known(r, ids)
	if err != nil {
		return err
	}
	for _, id := range own {
		delete(seen, id)
	}
	if len(seen) == 0 {
		return nil
	}
	for i := range jobs {
		for n, d := range jobs[i].After {
			if seen[d.ID] {
				return checks.NoJob(i, checks.Edge{ID: d.ID, At: n})
			}
		}
	}
	return nil
}

// ofOne takes an error of a call with one job for that of its job.
func ofOne(err error) error {
	if _, rule, ok := wire.InvalidJob(err); ok {
		return rule
	}
	return err
}
