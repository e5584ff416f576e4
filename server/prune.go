package server

import (
	"cmp"
	"net/http"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
)

type pruneRequest struct {
	IDs       idList        `json:"ids"`
	Queue     string        `json:"queue"`
	State     dibs.State    `json:"state"`
	OlderThan *wire.Seconds `json:"older_than"`
}

type pruneAnswer struct {
	Pruned  int     `json:"pruned"`
	IDs     []int64 `json:"ids,omitzero"`     // If ids were given: the jobs that were deleted.
	Unknown []int64 `json:"unknown,omitzero"` // If ids were given: those of jobs that do not exist.
}

// prune deletes jobs that have ended, by their ids or by their age.
func (s *Server) prune(w http.ResponseWriter, r *http.Request) error {
	var body pruneRequest
	if err := readBody(r, &body); err != nil {
		return err
	}
	switch {
	case body.IDs != nil:
		return s.pruneNamed(w, r, body)
	case body.OlderThan == nil:
		return missing("older_than")
	}
	if err := s.mayUse(r, body.Queue); err != nil {
		return err
	}
	n, err := s.db.Prune(r.Context(), body.Queue, body.State, time.Duration(*body.OlderThan))
	if err != nil {
		return err
	}
	s.noted(r, "prune", n, cmp.Or(string(body.State), "ended")+" jobs of "+queueNoted(body.Queue))
	return reply(w, http.StatusOK, pruneAnswer{Pruned: n})
}

// pruneNamed deletes the jobs of a list of ids.
func (s *Server) pruneNamed(w http.ResponseWriter, r *http.Request, body pruneRequest) error {
	if body.Queue != "" || body.State != "" || body.OlderThan != nil {
		return &dibs.InvalidError{Field: "ids", Reason: "go without queue, state and older_than"}
	}
	asked := idsOf(body.IDs)
	if err := checks.IDs(asked); err != nil {
		return err
	}
	ids, err := s.own(r, asked)
	if err != nil {
		return err
	}
	deleted, err := s.db.DeleteEnded(r.Context(), ids, time.Time{})
	if err != nil {
		return err
	}
	s.noted(r, "prune", len(deleted), words.Jobs(deleted, len(deleted)))
	unknown, err := s.unknown(r, body.IDs, deleted)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, pruneAnswer{len(deleted), list(deleted), unknown})
}
