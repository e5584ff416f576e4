package server

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// jobsBefore shows a page of the jobs that a job comes after.
func (s *Server) jobsBefore(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "limit", "after")
	if err != nil {
		return err
	}
	limit, err := number(q, "limit")
	if err != nil {
		return err
	}
	if _, given := q["limit"]; limit < 0 || limit > 1000 || given && limit == 0 {
		return &dibs.InvalidError{Field: "limit", Reason: fmt.Sprintf("must be 1 to 1000, got %d", limit)}
	}
	after, err := int64(0), error(nil)
	if text := q["after"]; text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return &dibs.InvalidError{Field: "after", Reason: fmt.Sprintf("must be the next of an earlier page, got %.40q", text)}
		}
	}
	job, err := s.jobOf(r)
	if err != nil {
		return err
	}
	page, err := s.before(r, job.ID, after, cmp.Or(limit, 100))
	if err != nil {
		return err
	}
	page.Jobs = list(page.Jobs)
	shown(page.Jobs...)
	return reply(w, http.StatusOK, page)
}

// before loads a page of the jobs that a job comes after. If they are large, it has fewer than asked for. Jobs of queues
// that the caller may not use are left out, and Next is the id of a job that is shown, so that it names none of them.
func (s *Server) before(r *http.Request, id, after int64, most int) (all admin.Page, err error) {
	for {
		n := nextLoad(all.Jobs, most)
		err := s.loads.show(r, n, func() error {
			var page []*dibs.RawJob
			if page, after, err = s.db.Before(r.Context(), id, after, n); err != nil {
				return err
			}
			all.Jobs = append(all.Jobs, visible(s, r, page, func(j *dibs.RawJob) string { return j.Queue })...)
			return roomOf(r).set(memory(all.Jobs))
		})
		switch {
		case err != nil:
			return admin.Page{}, err
		case after == 0:
			return all, nil
		case nextLoad(all.Jobs, most) == 0:
			all.Next = strconv.FormatInt(all.Jobs[len(all.Jobs)-1].ID, 10)
			return all, nil
		}
	}
}
