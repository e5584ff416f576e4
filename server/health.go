package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

const (
	readyTimeout = 2 * time.Second
	readyFor     = time.Second // how long one answer of the database serves for all who ask
)

// readiness is what the database last answered.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

type healthAnswer struct {
	Status string `json:"status"`
}

// healthz says that the process serves, also while the database is unreachable.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, http.StatusOK, healthAnswer{"ok"})
}

// readyz says that the database answers and can be written, that what is due by the clock is done, and that
// the server is not shutting down.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if s.closing.Err() != nil {
		return &problemError{kind: shuttingDown}
	}
	if err := s.ask(r.Context()); err != nil {
		return err
	}
	if late := s.hub.late(); late > 0 {
		return &problemError{kind: unavailable, detail: fmt.Sprintf("for %v the server could not do what is due by the clock, such as ending leases; its log tells why", late.Round(time.Second))}
	}
	return reply(w, http.StatusOK, healthAnswer{"ok"})
}

// ask looks for a job that does not exist, and sweeps, which a read-only database refuses; but not if that
// was done just before. Other errors of a sweep, such as an unreadable schedule, show only if the hub is
// late.
func (s *Server) ask(ctx context.Context) error {
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	if time.Since(s.ready.at) < readyFor {
		return s.ready.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	_, err := s.db.Get(ctx, math.MaxInt64)
	if errors.Is(err, dibs.ErrNotFound) {
		err = nil
	}
	if err == nil {
		if _, swept := s.db.Sweep(ctx); errors.As(swept, new(*checks.ReadOnlyError)) {
			err = swept
		}
	}
	s.ready.at, s.ready.err = time.Now(), err
	return err
}
