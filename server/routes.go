package server

import "net/http"

// route is one call of the API.
type route struct {
	method  string
	pattern string // of http.ServeMux
	scope   Scope  // what the caller needs; "": nothing
	// long is set where a call may take as long as the client likes: it waits, or its body
	// is read as it comes. Such a call has no limit of its time, and a streamed body none of its length.
	long   bool
	handle func(w http.ResponseWriter, r *http.Request) error
}

// routes are all calls of the API.
func (s *Server) routes() []route {
	return []route{
		{"GET", "/healthz", "", false, s.healthz},
	}
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, http.StatusOK, struct{}{})
}
