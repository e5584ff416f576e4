package server

import "net/http"

// metrics serves Options.Metrics. Its values are about all queues, so the token must be for all queues.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.Metrics == nil {
		return &problemError{kind: unknownRoute, detail: "this server has no metrics"}
	}
	if s.limited(r) {
		return refuseScope("", ScopeRead, "metrics are about all queues, and the token has the scope read only for some")
	}
	s.Metrics.ServeHTTP(w, r)
	return nil
}
