package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// noteTime is how long an answer waits for its change to be noted.
const noteTime = 5 * time.Second

// noted notes what a call of the API has changed, unless it changed nothing.
func (s *Server) noted(r *http.Request, did string, n int, what string) {
	if n > 0 {
		c, _ := r.Context().Value(callerKey{}).(caller)
		s.note(r, dibs.Change{Who: c.name, Did: did, What: what, N: n})
	}
}

// note notes what a request has changed, in the log and for the page of changes. The change has been made: it is
// noted even if the client is gone, and stands if that fails.
func (s *Server) note(r *http.Request, c dibs.Change) {
	s.Log.Info("changed", "who", cmp.Or(c.Who, "somebody without a token"), "did", c.Did, "what", c.What, "n", c.N, "client", r.RemoteAddr)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), noteTime)
	defer cancel()
	if err := s.db.NoteChange(ctx, c); err != nil && !errors.Is(err, errors.ErrUnsupported) { // an adopted table has only the log
		s.Log.Warn("a change was not noted in the database", "did", c.Did, "what", c.What, "error", err.Error())
	}
}

func queueNoted(name string) string {
	if name == "" {
		return "all queues"
	}
	return "queue " + name
}

// withFields names what was changed, and to what: the fields that a body has. What a job carries is
// only named.
func withFields(what string, body any) string {
	text, err := json.Marshal(body)
	fields := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return what // the call has read this body, so this does not happen
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := string(fields[name]); {
		case value == "null" || name == "ids":
		case name == "payload" || name == "metadata":
			all = append(all, name)
		default:
			all = append(all, name+" "+value)
		}
	}
	return what + ": " + strings.Join(all, ", ")
}
