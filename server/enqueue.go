package server

import (
	"fmt"
	"net/http"

	"github.com/dibs-queue/dibs"
)

// enqueueOne adds one job.
func (s *Server) enqueueOne(w http.ResponseWriter, r *http.Request) error {
	body, err := bodyOf(r, "application/json")
	if err != nil {
		return err
	}
	job, err := readJob("body", body)
	if err != nil {
		return err
	}
	if err := s.mayUse(r, job.Queue); err != nil {
		return err
	}
	if err := s.mayMake(r.Context(), job.Queue); err != nil {
		return err
	}
	if err := alone(job); err != nil {
		return err
	}
	if err := s.mayFollow(r, []dibs.NewJob{job}); err != nil {
		return ofOne(err)
	}
	got, err := s.db.Enqueue(r.Context(), []dibs.NewJob{job})
	if err != nil {
		return ofOne(err)
	}
	status := http.StatusCreated
	if got[0].Existing {
		status = http.StatusOK
	}
	return reply(w, status, got[0])
}

// enqueueBatch adds all jobs of a list, or none.
func (s *Server) enqueueBatch(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Jobs rawList `json:"jobs"`
	}
	if err := readBody(r, &body); err != nil {
		return err
	}
	if body.Jobs == nil {
		return missing("jobs")
	}
	jobs := make([]dibs.NewJob, len(body.Jobs))
	var queues []string
	named := 0 // how many others the jobs name that they come after
	for i, raw := range body.Jobs {
		if err := r.Context().Err(); err != nil {
			return err // the client is gone
		}
		body.Jobs[i] = nil // free the text: the job has copied what it needs
		job, err := readJob(fmt.Sprintf("jobs[%d]", i), raw)
		if err != nil {
			return err
		}
		if named += len(job.After); tooManyAfter(i, named) != nil {
			return tooManyAfter(i, named)
		}
		if i == 0 || job.Queue != jobs[i-1].Queue {
			if err := s.mayUse(r, job.Queue); err != nil {
				return err
			}
			queues = append(queues, job.Queue)
		}
		jobs[i] = job
	}
	if err := s.mayMake(r.Context(), queues...); err != nil {
		return err
	}
	if err := s.mayFollow(r, jobs); err != nil {
		return err
	}
	got, err := s.db.Enqueue(r.Context(), jobs)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, enqueuedBatch{got})
}

type enqueuedBatch struct {
	Jobs []dibs.Enqueued `json:"jobs"`
}
