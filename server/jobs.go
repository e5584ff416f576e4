package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
)

// shown makes jobs fit to be looked at: without the tokens of their leases, with which anybody
// could finish them.
func shown(jobs ...*dibs.RawJob) {
	for _, j := range jobs {
		j.Token = dibs.Token{}
	}
}

// jobOf is the job that the path names.
func (s *Server) jobOf(r *http.Request) (*dibs.RawJob, error) {
	id, err := pathID(r)
	if err != nil {
		return nil, err
	}
	job, err := s.db.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if s.mayUse(r, job.Queue) != nil {
		return nil, fmt.Errorf("job %d: %w", id, dibs.ErrNotFound) // as the store says it: the caller does not learn that there is one
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

// maxWait is how long one call waits at most. Much of what stands between clients and servers
// gives up after a minute.
const maxWait = time.Minute

// waitTime is how long a caller wants to wait.
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
		done, err := s.wait(r)
		if err != nil {
			return err
		}
		defer done()
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		defer context.AfterFunc(s.closing, cancel)()
		if job, err = s.db.Wait(ctx, job.ID); err != nil && ctx.Err() != nil && r.Context().Err() == nil {
			if job, err = s.jobOf(r); errors.Is(err, dibs.ErrNotFound) { // it ended just now
				err = fmt.Errorf("%w: it has ended, and its queue does not keep it", err)
			}
		}
		if err != nil {
			return err
		}
		shown(job)
	}
	return reply(w, http.StatusOK, job)
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

// listJobs shows a page of jobs.
func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, jobFilters...)
	if err != nil {
		return err
	}
	f := dibs.Filter{Queue: q["queue"], Kind: q["kind"], Group: q["group"], State: dibs.State(q["state"]), After: q["after"]}
	if f.Limit, err = number(q, "limit"); err != nil {
		return err
	}
	if _, given := q["limit"]; given && f.Limit == 0 {
		return &dibs.InvalidError{Field: "limit", Reason: "must be 1 to 1000, got 0"}
	}
	if err := s.mayUse(r, f.Queue); err != nil { // not filtered: Page.Next would name jobs of other queues
		return err
	}
	page, err := s.page(r.Context(), f)
	if err != nil {
		return err
	}
	page.Jobs = list(page.Jobs)
	shown(page.Jobs...)
	return reply(w, http.StatusOK, page)
}

// page is a page of jobs, of fewer if they are large.
func (s *Server) page(ctx context.Context, f dibs.Filter) (all dibs.Page, err error) {
	most := cmp.Or(f.Limit, 100)
	if most < 0 || most > 1000 { // the store says so
		return s.db.List(ctx, f)
	}
	for {
		f.Limit = nextBatch(all.Jobs, most)
		page, err := s.db.List(ctx, f)
		if err != nil {
			return all, err
		}
		all.Jobs, all.Next = append(all.Jobs, page.Jobs...), page.Next
		if f.After = page.Next; f.After == "" || len(page.Jobs) < f.Limit || nextBatch(all.Jobs, most) == 0 {
			return all, nil
		}
	}
}

const (
	// firstBatch is how many jobs an answer takes from the database before it is known how large
	// they are, and answerBytes after how many bytes it takes no more.
	firstBatch  = 32
	answerBytes = 4 << 20
)

// nextBatch is how many jobs more an answer takes that may have most, by the size of those it has.
func nextBatch(have []*dibs.RawJob, most int) int {
	if len(have) == 0 {
		return min(most, firstBatch)
	}
	size := 1
	for _, j := range have {
		size += len(j.Payload) + len(j.Metadata) + len(j.Result)
	}
	if size >= answerBytes {
		return 0
	}
	return min(most-len(have), max(1, (answerBytes-size)*len(have)/size))
}

// visible leaves out what belongs to queues that the caller may not use.
func visible[T any](s *Server, r *http.Request, all []T, queue func(T) string) []T {
	list := make([]T, 0, len(all))
	for _, one := range all {
		if !s.limited(r) || s.mayUse(r, queue(one)) == nil {
			list = append(list, one)
		}
	}
	return list
}

// own leaves out jobs of queues that the caller may not use: they are passed over, as unknown ones are. Only for
// a caller who may not use all queues it looks them up.
func (s *Server) own(r *http.Request, ids []int64) ([]int64, error) {
	if !s.limited(r) {
		return ids, nil
	}
	var own []int64
	for _, id := range ids {
		job, err := s.db.Get(r.Context(), id)
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
	IDs []jobID `json:"ids"`
}

// idsAnswer lists the jobs that were changed.
type idsAnswer struct {
	IDs []int64 `json:"ids"`
}

// readIDs reads a request with ids of jobs, and returns those that the caller may change.
func (s *Server) readIDs(r *http.Request, body any, list *[]jobID) ([]int64, error) {
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
	Ended []int64 `json:"ended"` // jobs that waited: they are cancelled
	Asked []int64 `json:"asked"` // running jobs: their workers learn of it when they extend
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
	return reply(w, http.StatusOK, cancelAnswer{list(ended), list(asked)})
}

// list is never null in JSON.
func list[T any](l []T) []T { return append([]T{}, l...) }

// requeue puts jobs that have ended back to waiting.
func (s *Server) requeue(w http.ResponseWriter, r *http.Request) error {
	var body idsRequest
	ids, err := s.readIDs(r, &body, &body.IDs)
	if err != nil {
		return err
	}
	changed, err := s.db.Requeue(r.Context(), ids)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, idsAnswer{list(changed)})
}

type editRequest struct {
	IDs      []jobID    `json:"ids"`
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
	changed, err := s.db.Edit(r.Context(), ids, dibs.Edit{Priority: body.Priority, RunAt: body.RunAt})
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, idsAnswer{list(changed)})
}

type pruneRequest struct {
	Queue     string        `json:"queue"`
	State     dibs.State    `json:"state"`
	OlderThan *wire.Seconds `json:"older_than"`
}

type pruneAnswer struct {
	Pruned int `json:"pruned"`
}

// prune deletes jobs that have ended.
func (s *Server) prune(w http.ResponseWriter, r *http.Request) error {
	var body pruneRequest
	if err := readBody(r, &body); err != nil {
		return err
	}
	if body.OlderThan == nil {
		return missing("older_than")
	}
	if err := s.mayUse(r, body.Queue); err != nil {
		return err
	}
	n, err := s.db.Prune(r.Context(), body.Queue, body.State, time.Duration(*body.OlderThan))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, pruneAnswer{n})
}
