package server

import (
	"fmt"
	"net/http"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

// adder reads the jobs that the outcomes of one request add. Its caller must be allowed to enqueue them.
type adder struct {
	server *Server
	r      *http.Request
	as     *http.Request // r with what its caller may enqueue; nil: no outcome was read that adds jobs
	n      int           // how many jobs were read
	after  int           // how many others they name that they come after
	queues []string
}

// read reads the jobs that the outcome at place i adds.
func (a *adder) read(i int, list wire.Added) (jobs []dibs.NewJob, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	if a.as == nil {
		if a.as, err = a.server.authorize(route{scope: ScopeEnqueue}, a.r); err != nil {
			return nil, err
		}
	}
	if a.n += len(list); a.n > dibs.MaxBatch { // before they are decoded, as a short text can take much memory
		return nil, &dibs.InvalidError{Field: fmt.Sprintf("outcomes[%d].add", i), Reason: fmt.Sprintf("the outcomes of one call add more than %d jobs", dibs.MaxBatch)}
	}
	jobs = make([]dibs.NewJob, len(list))
	for k, raw := range list {
		if jobs[k], err = readJob(fmt.Sprintf("outcomes[%d].add[%d]", i, k), raw); err != nil {
			return nil, err
		}
		if a.after += len(jobs[k].After); tooManyAfter(k, a.after) != nil {
			return nil, inOutcome(i, tooManyAfter(k, a.after))
		}
		queue := jobs[k].Queue
		if len(a.queues) > 0 && queue == a.queues[len(a.queues)-1] {
			continue
		}
		if err := a.server.mayUse(a.as, queue); err != nil {
			return nil, err
		}
		a.queues = append(a.queues, queue)
	}
	return jobs, inOutcome(i, a.server.mayFollow(a.as, jobs))
}

// inOutcome takes an error of a batch of jobs for that of the jobs which the outcome at place i adds.
func inOutcome(i int, err error) error {
	if k, rule, ok := wire.InvalidJob(err); ok {
		return &dibs.InvalidError{Field: fmt.Sprintf("outcomes[%d].add[%d].%s", i, k, rule.Field), Reason: rule.Reason}
	}
	return err
}

// mayMake refuses jobs that would make queues beyond the limit.
func (a *adder) mayMake() error {
	if len(a.queues) == 0 {
		return nil
	}
	return a.server.mayMake(a.r.Context(), a.queues...)
}
