package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// Scope is what a caller may do.
type Scope string

const (
	ScopeEnqueue Scope = "enqueue" // add jobs
	ScopeWork    Scope = "work"    // claim, extend and finish jobs
	ScopeRead    Scope = "read"    // look at jobs, queues, schedules, workers and statistics
	ScopeAdmin   Scope = "admin"   // change jobs, queues and schedules, and all that the others may
)

// callerKey is the key under which a request's context holds its caller.
type callerKey struct{}

// caller says who makes a request, and for which queues the token has the scope of the request's route.
type caller struct {
	name   string
	scope  Scope
	queues queues
}

// authorize finds the token of a request, and returns the request with its caller. If nobody needs a
// token, or the route needs no scope, it returns the request as it is.
func (s *Server) authorize(rt route, r *http.Request) (*http.Request, error) {
	if s.Tokens == nil || rt.scope == "" {
		return r, nil
	}
	token, err := bearer(r)
	if err != nil {
		return r, err
	}
	g := s.Tokens.find(token)
	if g == nil {
		return r, askForToken(`, error="invalid_token"`, "this server does not know the token")
	}
	names, has := g.queuesOf(rt.scope)
	if !has {
		return r, refuseScope(g.name, rt.scope, fmt.Sprintf("this needs the scope %s, which the token %s does not have", rt.scope, g.name))
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{g.name, rt.scope, names})), nil
}

// bearer returns the token in a request's header; empty: there is none.
func bearer(r *http.Request) (token string, err error) {
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return "", askForToken("", "a token is needed: send it as Authorization: Bearer TOKEN")
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	token = strings.Trim(token, " ")
	if len(given) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", askForToken(`, error="invalid_request"`, "the header Authorization must be, once: Bearer TOKEN")
	}
	return token, nil
}

func askForToken(challenge, detail string) error {
	return &problemError{kind: unauthorized, detail: detail, header: http.Header{"Www-Authenticate": {`Bearer realm="dibs"` + challenge}}}
}

// again authorizes a request once more that has waited or goes on for long, as tokens may have been replaced meanwhile.
func (s *Server) again(r *http.Request) (*http.Request, error) {
	c, known := r.Context().Value(callerKey{}).(caller)
	if !known {
		return r, nil
	}
	return s.authorize(route{scope: c.scope}, r)
}

// stillMay returns an error if the caller of a request that has waited may no longer use a queue.
func (s *Server) stillMay(r *http.Request, queue string) error {
	now, err := s.again(r)
	if err != nil {
		return err
	}
	return s.mayUse(now, queue)
}

func refuseScope(token string, scope Scope, detail string) error {
	return &problemError{kind: forbidden, detail: detail, header: http.Header{
		"Www-Authenticate": {fmt.Sprintf(`Bearer realm="dibs", error="insufficient_scope", scope="%s"`, scope)},
	}}
}

// mayUse returns an error if the caller of a request may not use a queue with the scope of the
// route. The empty name stands for all queues at once.
func (s *Server) mayUse(r *http.Request, queue string) error {
	c, known := r.Context().Value(callerKey{}).(caller)
	switch {
	case !known || c.queues == nil || queue != "" && slices.Contains(c.queues, queue):
		return nil
	case queue == "":
		return refuseScope(c.name, c.scope, fmt.Sprintf("name a queue: the token %s has the scope %s only for %s", c.name, c.scope, c.queues))
	}
	return refuseScope(c.name, c.scope, fmt.Sprintf("the token %s has the scope %s only for %s", c.name, c.scope, c.queues))
}

// limited reports whether there are queues that the caller may not use. Only for such callers do
// calls that name jobs by their ids look up the jobs' queues.
func (s *Server) limited(r *http.Request) bool {
	c, known := r.Context().Value(callerKey{}).(caller)
	return known && c.queues != nil
}

// ownQueues are the queues that the caller of a request may use; nil: all. Calls of the database
// that take them act only on jobs and schedules of these queues, whatever changes meanwhile.
func ownQueues(r *http.Request) []string {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c.queues
}

// String lists the names.
func (q queues) String() string {
	names := make([]string, len(q))
	for i, name := range q {
		names[i] = fmt.Sprintf("%q", name)
	}
	slices.Sort(names)
	return "the queues " + strings.Join(slices.Compact(names), ", ")
}

// LogValue keeps tokens out of logs, whoever passes them to one.
func (t *Tokens) LogValue() slog.Value { return slog.StringValue("tokens") }
