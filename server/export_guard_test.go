package server

// Route is a route of the API, for tests that try all of them.
type Route struct {
	Method, Pattern string
	Scope           Scope
}

// Routes lists the routes.
func (s *Server) Routes() (list []Route) {
	for _, rt := range s.routes() {
		list = append(list, Route{rt.method, rt.pattern, rt.scope})
	}
	return list
}

// InUse is what requests hold of the limits: it must be nothing when there is none.
func (s *Server) InUse() (requests, waiting, bodies int64) {
	return s.seats.requests.used.Load(), s.seats.waiting.used.Load(), s.bodies.used.Load()
}

// StreamsAndAnswers is what streams and answers hold.
func (s *Server) StreamsAndAnswers() (streams, answers int64) {
	return s.seats.streams.used.Load(), s.answers.used.Load()
}

// Shares is what the tokens hold of their shares, in all.
func (s *Server) Shares() (n int64) {
	s.shares.Range(func(_, of any) bool {
		own := of.(*seats)
		n += own.requests.used.Load() + own.waiting.used.Load() + own.streams.used.Load()
		return true
	})
	return n
}
