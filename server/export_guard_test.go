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
	return s.requests.used.Load(), s.waiting.used.Load(), s.bodies.used.Load()
}
