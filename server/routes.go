package server

import "net/http"

// route is one call of the API.
type route struct {
	method  string
	pattern string   // pattern of http.ServeMux
	scope   Scope    // what the caller's token must have; empty: no token is needed
	query   []string // the parameters that the call knows
	handle  func(w http.ResponseWriter, r *http.Request) error
	// waits is true for calls that may take long because they wait for jobs. streamed is true for
	// a call that reads its body as it comes, of whatever length, and may so take long, too.
	waits, streamed bool
}

// jobFilters are the parameters of a list of jobs.
var jobFilters = []string{"queue", "kind", "group", "state", "worker", "error", "payload", "unique_key", "scheduled", "finished_since", "finished_before", "limit", "after"}

// routes are all calls of the API.
func (s *Server) routes() []route {
	return []route{
		{method: "POST", pattern: "/v1/jobs", scope: ScopeEnqueue, handle: s.enqueueOne},
		{method: "POST", pattern: "/v1/jobs/batch", scope: ScopeEnqueue, handle: s.enqueueBatch},
		{method: "POST", pattern: "/v1/jobs/stream", scope: ScopeEnqueue, handle: s.enqueueStream, streamed: true},

		{method: "POST", pattern: "/v1/claim", scope: ScopeWork, handle: s.claim, waits: true},
		{method: "POST", pattern: "/v1/extend", scope: ScopeWork, handle: s.extend},
		{method: "POST", pattern: "/v1/finish", scope: ScopeWork, handle: s.finish},
		{method: "POST", pattern: "/v1/steps", scope: ScopeWork, handle: s.writeStep},
		{method: "POST", pattern: "/v1/steps/list", scope: ScopeWork, handle: s.heldSteps},

		{method: "GET", pattern: "/v1/jobs", scope: ScopeRead, query: jobFilters, handle: s.listJobs},
		{method: "GET", pattern: "/v1/jobs/{id}", scope: ScopeRead, handle: s.getJob},
		{method: "GET", pattern: "/v1/jobs/{id}/wait", scope: ScopeRead, query: []string{"timeout"}, handle: s.waitForJob, waits: true},
		{method: "GET", pattern: "/v1/jobs/{id}/steps", scope: ScopeRead, handle: s.jobSteps},
		{method: "GET", pattern: "/v1/jobs/{id}/before", scope: ScopeRead, query: []string{"limit", "after"}, handle: s.jobsBefore},
		{method: "POST", pattern: "/v1/jobs/cancel", scope: ScopeAdmin, handle: s.cancel},
		{method: "POST", pattern: "/v1/jobs/requeue", scope: ScopeAdmin, handle: s.requeue},
		{method: "POST", pattern: "/v1/jobs/edit", scope: ScopeAdmin, handle: s.edit},
		{method: "POST", pattern: "/v1/jobs/prune", scope: ScopeAdmin, handle: s.prune},

		{method: "GET", pattern: "/v1/queues", scope: ScopeRead, query: []string{"limit", "after"}, handle: s.listQueues},
		{method: "GET", pattern: "/v1/queues/{queue}", scope: ScopeRead, handle: s.getQueue},
		{method: "PATCH", pattern: "/v1/queues/{queue}", scope: ScopeAdmin, query: []string{"create"}, handle: s.changeQueue},
		{method: "DELETE", pattern: "/v1/queues/{queue}", scope: ScopeAdmin, query: []string{"ended"}, handle: s.deleteQueue},
		{method: "GET", pattern: "/v1/queues/{queue}/groups", scope: ScopeRead, handle: s.listGroups},
		{method: "PATCH", pattern: "/v1/queues/{queue}/groups/{group}", scope: ScopeAdmin, handle: s.changeGroup},
		{method: "GET", pattern: "/v1/stats", scope: ScopeRead, query: []string{"queue", "limit", "after"}, handle: s.stats},
		{method: "GET", pattern: "/v1/workers", scope: ScopeRead, handle: s.workers},

		{method: "GET", pattern: "/v1/schedules", scope: ScopeRead, handle: s.listSchedules},
		{method: "GET", pattern: "/v1/schedules/{schedule}", scope: ScopeRead, handle: s.getSchedule},
		{method: "PUT", pattern: "/v1/schedules/{schedule}", scope: ScopeAdmin, handle: s.setSchedule},
		{method: "PATCH", pattern: "/v1/schedules/{schedule}", scope: ScopeAdmin, handle: s.changeSchedule},
		{method: "DELETE", pattern: "/v1/schedules/{schedule}", scope: ScopeAdmin, handle: s.deleteSchedule},
		{method: "POST", pattern: "/v1/schedules/{schedule}/run", scope: ScopeAdmin, handle: s.runSchedule},
		{method: "GET", pattern: "/v1/schedules/{schedule}/next", scope: ScopeRead, query: []string{"n"}, handle: s.nextTicks},

		{method: "GET", pattern: "/healthz", handle: s.healthz},
		{method: "GET", pattern: "/readyz", handle: s.readyz},
		{method: "GET", pattern: "/metrics", scope: ScopeRead, handle: s.metrics},
		{method: "GET", pattern: "/openapi.json", handle: s.openAPI},
	}
}
