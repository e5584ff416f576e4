package server

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

// FewKinds and MaxSearch are fewKinds and maxSearch, for the tests.
const (
	FewKinds  = fewKinds
	MaxSearch = maxSearch
)

// Waiting is how many clients wait for jobs, and Busy for how many of them claims are under way.
func (s *Server) Waiting() int { return s.count(func(l *line) int { return len(l.waiting) }) }

func (s *Server) Busy() int { return s.count(func(l *line) int { return l.claims }) }

func (s *Server) count(f func(*line) int) (n int) {
	s.hub.mu.Lock()
	lines := slices.Collect(maps.Values(s.hub.lines))
	s.hub.mu.Unlock()
	for _, l := range lines {
		l.mu.Lock()
		n += f(l)
		l.mu.Unlock()
	}
	return n
}

// HasNotSweptFor pretends that nothing due by the clock could be done for some time.
func (s *Server) HasNotSweptFor(d time.Duration) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.lookedAt = time.Now().Add(-d)
}

// ReadLine reads the first line of a stream that is not blank, and returns why it cannot.
func ReadLine(over context.Context, from io.Reader) error {
	l := &lineReader{in: bufio.NewReader(from), drop: func(int) {}, over: over}
	return l.next().err
}

// MaxClients is maxClients, for the tests.
const MaxClients = maxClients

// Roster is a roster, for the tests.
type Roster struct{ r *roster }

// NewRoster is a roster that writes its entries to a function.
func NewRoster(register func([]dibs.WorkerInfo) error) *Roster {
	r := newRoster(nil)
	r.register = func(_ context.Context, list ...dibs.WorkerInfo) error { return register(list) }
	return &Roster{r}
}

func (ro *Roster) Tell(now time.Time) error { return ro.r.tell(context.Background(), now) }

// Claims begins a claim, and returns what ends it.
func (ro *Roster) Claims(r *http.Request, c dibs.ClaimRequest) (end func([]*dibs.RawJob, time.Time)) {
	return ro.r.claims(r, c)
}

func (ro *Roster) Extended(l dibs.Lease, d time.Duration, now time.Time) { ro.r.extended(l, d, now) }

func (ro *Roster) Ended(id int64, token dibs.Token) { ro.r.ended(id, token) }

// Held is how many leases the server keeps in mind.
func (s *Server) Held() int {
	s.guests.mu.Lock()
	defer s.guests.mu.Unlock()
	return len(s.guests.leases)
}
