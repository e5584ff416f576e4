package server

import (
	"bufio"
	"context"
	"io"
	"maps"
	"slices"
	"time"
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
