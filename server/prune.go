package server

import (
	"cmp"
	"net/http"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

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
	s.noted(r, "prune", n, cmp.Or(string(body.State), "ended")+" jobs of "+queueNoted(body.Queue))
	return reply(w, http.StatusOK, pruneAnswer{n})
}
