package server

import "net/http"

// Scope is what a caller may do.
type Scope string

const (
	ScopeEnqueue Scope = "enqueue" // add jobs
	ScopeWork    Scope = "work"    // claim, extend and finish jobs
	ScopeRead    Scope = "read"    // look at jobs, queues, schedules, workers and statistics
	ScopeAdmin   Scope = "admin"   // change jobs, queues and schedules
)

// mayUse returns an error where the caller of a request may not use a queue with the scope of the
// request's route. An empty name stands for all queues at once.
func (s *Server) mayUse(_ *http.Request, _ string) error { return nil }

// limited reports whether mayUse refuses the caller any queue. Calls that name jobs by their ids
// look up the jobs' queues for such callers only.
func (s *Server) limited(_ *http.Request) bool { return false }
