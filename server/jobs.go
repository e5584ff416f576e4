package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
)

// shown removes the tokens of leases from jobs that are only looked at: with a token, anybody
// could finish the job.
func shown(jobs ...*dibs.RawJob) {
	for _, j := range jobs {
		j.Token = dibs.Token{}
	}
}

// jobOf loads the job whose id is in the path.
func (s *Server) jobOf(r *http.Request) (*dibs.RawJob, error) {
	id, err := pathID(r)
	if err != nil {
		return nil, err
	}
	return s.job(r, id)
}

// job loads a job, if the caller may use its queue.
func (s *Server) job(r *http.Request, id int64) (job *dibs.RawJob, err error) {
	err = s.loads.show(r, 1, func() error {
		if job, err = s.db.Get(r.Context(), id); err != nil {
			return err
		}
		if s.mayUse(r, job.Queue) != nil {
			return fmt.Errorf("job %d: %w", id, dibs.ErrNotFound) // the same error as for a job that does not exist, so that the caller does not learn that it does
		}
		return roomOf(r).set(memory([]*dibs.RawJob{job}))
	})
	if err != nil {
		return nil, err
	}
	shown(job)
	return job, nil
}

// getJob shows one job.
func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	job, err := s.jobOf(r)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, job)
}

// maxWait is how long one call may wait. Many programs between clients and servers end a
// connection that is silent for a minute.
const maxWait = time.Minute

// waitTime checks how long a caller wants to wait.
func waitTime(field string, d time.Duration) (time.Duration, error) {
	if d < 0 || d > maxWait {
		return 0, &dibs.InvalidError{Field: field, Reason: fmt.Sprintf("must be 0 to %s, got %s", wire.FormatDuration(maxWait), wire.FormatDuration(d))}
	}
	return d, nil
}

// waitForJob shows a job when it has ended, or as it is when the time is over.
func (s *Server) waitForJob(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "timeout")
	if err != nil {
		return err
	}
	timeout := maxWait
	if text, given := q["timeout"]; given {
		if timeout, err = seconds("timeout", text); err == nil {
			timeout, err = waitTime("timeout", timeout)
		}
		if err != nil {
			return err
		}
	}
	job, err := s.jobOf(r)
	if err != nil {
		return err
	}
	if !job.State.Final() && timeout > 0 {
		id, queue := job.ID, job.Queue
		job = nil // free the payload while the call waits
		if err := roomOf(r).set(0); err != nil {
			return err
		}
		if job, err = s.waitFor(r, id, timeout); err != nil {
			return err
		}
		if err := s.stillMay(r, queue); err != nil {
			return err
		}
	}
	return reply(w, http.StatusOK, job)
}

// waitFor waits for the end of a job, and returns the job as it is then, or at the end of the wait.
func (s *Server) waitFor(r *http.Request, id int64, timeout time.Duration) (*dibs.RawJob, error) {
	done, err := s.waitSeat(r)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	ended, err := s.db.Wait(ctx, id)
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		job, err := s.jobOf(r)
		if errors.Is(err, dibs.ErrNotFound) { // the job has ended just now, and was deleted
			err = fmt.Errorf("%w: it has ended, and its queue does not keep it", err)
		}
		return job, err
	}
	if err != nil {
		return nil, err
	}
	job := *ended // a copy: other waiters may have got the same job
	shown(&job)
	return &job, roomOf(r).set(memory([]*dibs.RawJob{&job}))
}

// seconds reads a duration of the query: a number of seconds, or a string such as 90s.
func seconds(field, text string) (time.Duration, error) {
	var d wire.Seconds
	if d.UnmarshalJSON([]byte(text)) == nil {
		return time.Duration(d), nil
	}
	if d.UnmarshalJSON(wire.Encode(text)) == nil {
		return time.Duration(d), nil
	}
	return 0, &dibs.InvalidError{Field: field, Reason: fmt.Sprintf("must be a number of seconds, or such as 90s, got %.40q", text)}
}

// moment reads a parameter that is a time; zero: it is not given.
func moment(q map[string]string, name string) (t time.Time, err error) {
	text, given := q[name]
	if !given {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return t, &dibs.InvalidError{Field: name, Reason: fmt.Sprintf("must be a time, such as 2026-12-31T23:59:00Z, got %.40q", text)}
	}
	return t, nil
}

// listJobs shows a page of jobs.
func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, jobFilters...)
	if err != nil {
		return err
	}
	f := admin.Filter{
		Queue: q["queue"], Kind: q["kind"], Group: q["group"], State: dibs.State(q["state"]), After: q["after"],
		Worker: q["worker"], Error: q["error"], Payload: q["payload"], UniqueKey: q["unique_key"],
	}
	if f.Scheduled, err = yesNo(r, "scheduled"); err != nil {
		return err
	}
	if f.FinishedSince, err = moment(q, "finished_since"); err != nil {
		return err
	}
	if f.FinishedBefore, err = moment(q, "finished_before"); err != nil {
		return err
	}
	if f.Limit, err = number(q, "limit"); err != nil {
		return err
	}
	if _, given := q["limit"]; given && f.Limit == 0 {
		return &dibs.InvalidError{Field: "limit", Reason: "must be 1 to 1000, got 0"}
	}
	if err := s.mayUse(r, f.Queue); err != nil { // refused, not filtered: Page.Next would name jobs of other queues
		return err
	}
	page, err := s.page(r, f)
	if err != nil {
		return err
	}
	page.Jobs = list(page.Jobs)
	shown(page.Jobs...)
	return reply(w, http.StatusOK, page)
}

// page loads a page of jobs. If the jobs are large, it has fewer than asked for.
func (s *Server) page(r *http.Request, f admin.Filter) (all admin.Page, err error) {
	most := cmp.Or(f.Limit, 100)
	if most < 0 || most > 1000 { // the store refuses this
		return s.db.List(r.Context(), f)
	}
	load := s.loads.show
	if f.Payload != "" || f.Error != "" || f.Worker != "" { // such a search uses no index
		load = s.loads.search
	}
	for {
		f.Limit = nextLoad(all.Jobs, most)
		var page admin.Page
		err := load(r, f.Limit, func() error {
			if page, err = s.db.List(r.Context(), f); err != nil {
				return err
			}
			all.Jobs, all.Next = append(all.Jobs, page.Jobs...), page.Next
			return roomOf(r).set(memory(all.Jobs))
		})
		if err != nil {
			return admin.Page{}, err
		}
		if f.After = page.Next; f.After == "" || len(page.Jobs) < f.Limit || nextLoad(all.Jobs, most) == 0 {
			return all, nil
		}
	}
}

// visible leaves out elements whose queues the caller may not use.
func visible[T any](s *Server, r *http.Request, all []T, queue func(T) string) []T {
	list := make([]T, 0, len(all))
	for _, one := range all {
		if !s.limited(r) || s.mayUse(r, queue(one)) == nil {
			list = append(list, one)
		}
	}
	return list
}

// own leaves out jobs whose queues the caller may not use, like ids of jobs that do not exist. It looks up the
// jobs only if there are such queues.
func (s *Server) own(r *http.Request, ids []int64) ([]int64, error) {
	if !s.limited(r) {
		return ids, nil
	}
	return s.known(r, ids)
}

// known returns those of the ids that are jobs in queues that the caller may use.
func (s *Server) known(r *http.Request, ids []int64) ([]int64, error) {
	var own []int64
	for _, id := range ids {
		var job *dibs.RawJob
		err := s.loads.show(r, 1, func() (err error) {
			job, err = s.db.Get(r.Context(), id)
			return err
		})
		switch {
		case errors.Is(err, dibs.ErrNotFound):
		case err != nil:
			return nil, err
		case s.mayUse(r, job.Queue) == nil:
			own = append(own, id)
		}
	}
	return own, nil
}

type idsRequest struct {
	IDs idList `json:"ids"`
}

// idsAnswer lists the jobs that were changed, and ids of jobs that do not exist. Other jobs could
// not be changed in their state.
type idsAnswer struct {
	IDs     []int64 `json:"ids"`
	Unknown []int64 `json:"unknown"`
}

// unknown returns the requested ids of jobs that do not exist. It looks up only those that the
// call has not changed.
func (s *Server) unknown(r *http.Request, asked idList, changed []int64) ([]int64, error) {
	rest := without(idsOf(asked), changed)
	known, err := s.known(r, rest)
	return without(rest, known), err
}

// without returns the ids that are not among others.
func without(ids, others []int64) []int64 {
	in := make(map[int64]bool, len(others))
	for _, id := range others {
		in[id] = true
	}
	return slices.DeleteFunc(list(ids), func(id int64) bool { return in[id] })
}

// readIDs reads a request with ids of jobs, and returns those of jobs that the caller may change.
func (s *Server) readIDs(r *http.Request, body any, list *idList) ([]int64, error) {
	if err := readBody(r, body); err != nil {
		return nil, err
	}
	if *list == nil {
		return nil, missing("ids")
	}
	ids := idsOf(*list)
	if err := checks.IDs(ids); err != nil {
		return nil, err
	}
	return s.own(r, ids)
}

type cancelAnswer struct {
	Ended []int64 `json:"ended"` // jobs that waited and are cancelled now
	Asked []int64 `json:"asked"` // running jobs; a worker learns of it when it next extends the lease

	Unknown []int64 `json:"unknown"` // ids of jobs that do not exist; jobs in no list had ended before
}

// cancel ends jobs that wait, and asks the workers of running ones to stop.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	var body idsRequest
	ids, err := s.readIDs(r, &body, &body.IDs)
	if err != nil {
		return err
	}
	ended, asked, err := s.db.Cancel(r.Context(), ids)
	if err != nil {
		return err
	}
	s.noted(r, "cancel", len(ended)+len(asked), words.Jobs(slices.Concat(ended, asked), len(ended)+len(asked)))
	unknown, err := s.unknown(r, body.IDs, append(list(ended), asked...))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, cancelAnswer{list(ended), list(asked), unknown})
}

// list makes a nil list an empty one, so that it is not null in JSON.
func list[T any](l []T) []T { return append([]T{}, l...) }

// requeue puts jobs that have ended back to waiting.
func (s *Server) requeue(w http.ResponseWriter, r *http.Request) error {
	var body idsRequest
	ids, err := s.readIDs(r, &body, &body.IDs)
	if err != nil {
		return err
	}
	changed, err := s.db.Requeue(r.Context(), ids, time.Time{})
	if err != nil {
		return err
	}
	s.noted(r, "requeue", len(changed), words.Jobs(changed, len(changed)))
	unknown, err := s.unknown(r, body.IDs, changed)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, idsAnswer{list(changed), unknown})
}

type editRequest struct {
	IDs      idList     `json:"ids"`
	Priority *int       `json:"priority"`
	RunAt    *time.Time `json:"run_at"`
}

// edit changes jobs that wait.
func (s *Server) edit(w http.ResponseWriter, r *http.Request) error {
	var body editRequest
	ids, err := s.readIDs(r, &body, &body.IDs)
	if err != nil {
		return err
	}
	changed, err := s.db.Edit(r.Context(), ids, admin.Edit{Priority: body.Priority, RunAt: body.RunAt})
	if err != nil {
		return err
	}
	s.noted(r, "edit", len(changed), withFields(words.Jobs(changed, len(changed)), body))
	unknown, err := s.unknown(r, body.IDs, changed)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, idsAnswer{list(changed), unknown})
}
