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

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/words"
)

// noteTime is how long an answer waits until its change is noted.
const noteTime = 5 * time.Second

// noted records what a call of the API has changed, unless n is 0.
func (s *Server) noted(r *http.Request, did string, n int, what string) {
	if what = words.Clip(what, 1000); n > 0 {
		c, _ := r.Context().Value(callerKey{}).(caller)
		s.note(r, admin.Change{Who: c.name, Did: did, What: what, N: n})
	}
}

// note records what a request has changed, in the log and for the page of changes. The change itself has been
// made: it is recorded even if the client is gone, and it stays even if this fails.
func (s *Server) note(r *http.Request, c admin.Change) {
	s.Log.Info("changed", "who", cmp.Or(c.Who, "somebody without a token"), "did", c.Did, "what", c.What, "n", c.N, "client", r.RemoteAddr)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), noteTime)
	defer cancel()
	if err := s.db.NoteChange(ctx, c); err != nil && !errors.Is(err, errors.ErrUnsupported) { // an adopted table has no list of changes, only the log
		s.Log.Warn("a change was not noted in the database", "did", c.Did, "what", c.What, "error", err.Error())
	}
}

func queueNoted(name string) string {
	if name == "" {
		return "all queues"
	}
	return "queue " + name
}

// withFields adds to what was changed the fields of the request's body with their values. Of
// payload and metadata it adds only the names.
func withFields(what string, body any) string {
	text, err := json.Marshal(body)
	fields := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return what // cannot happen: the call has read this body
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
