// Package server is dibs over HTTP: a handler that programs in any language enqueue, claim and
// finish jobs with, in JSON.
//
// The calls are under /v1, and /openapi.json describes them by OpenAPI 3.1; docs/howto/http.md
// shows them with curl, Python and JavaScript. Every error is a [Problem]. The command
// 'dibs serve' is this handler with a listener.
//
// A server needs no register, file or table of its own: any number of them may serve one database,
// beside workers of every sort. Claims that wait cost one call of the database a second, whatever number of
// clients wait, and one in ten seconds lists each hundred of them among the workers. The server does what is
// due by the clock, as workers do, until it is closed: leases end and schedules tick, also while nobody calls
// it, for one call of the database in two seconds.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/page"
)

// Options are the settings of a server. The zero value is the default.
type Options struct {
	// Log gets what goes wrong inside of the server, without payloads and tokens; nil: nothing.
	Log *slog.Logger
	// Tokens says who may do what; nil: anybody may do everything, or who may has been decided
	// before, by middleware around the server.
	Tokens *Tokens
	// Hosts are the names by which clients call the server. A request to another host is refused, as a web page
	// may have made it under a name of its own (DNS rebinding). Addresses in digits and localhost need
	// not be listed. Empty: any host.
	Hosts []string
	// NoProxy refuses requests with a header that only a proxy adds, such as X-Forwarded-For or Via. It finds a proxy
	// on the same machine that opens a server without Tokens to others by mistake. A proxy that adds no such header,
	// as nginx's proxy_pass without proxy_set_header, is not noticed: put no proxy before a server without Tokens.
	NoProxy bool
	// Limits bound what clients take of memory and time.
	Limits Limits
	// Metrics is what GET /metrics answers, such as promhttp.Handler with what package metrics has registered; nil:
	// there is nothing at that path. Callers need the scope read for all queues.
	Metrics http.Handler
}

// Server is an [http.Handler]. Make one with [New].
type Server struct {
	Options
	db  admin.Database
	mux *http.ServeMux

	// closing ends when Close begins: waiting calls are answered at once.
	closing context.Context
	close   context.CancelFunc
	mu      sync.Mutex     // guards the order of begin and Close
	work    sync.WaitGroup // Close waits for these: calls that wait, and goroutines

	hub    *hub
	guests *roster
	pages  *page.Page
	ready  readiness

	seats           seats    // requests that are served, wait or stream, each limited
	shares          sync.Map // the seats of each token, by its name
	strangers       gauge    // requests without a token that are being served
	bodies, answers gauge    // bytes of bodies and answers in memory
	loads           loads
	counts          together[[]admin.QueueStats] // shares one count of the queues
	made            newQueues                    // counts queues for Limits.Queues
}

// New makes a server of a database, which must be open until the server is closed. It can be
// mounted below a prefix with [http.StripPrefix]. db may be nil if nothing but its /metrics can be reached.
func New(db admin.Database, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.withDefaults()
	s := &Server{Options: o, db: db, mux: http.NewServeMux(), loads: newLoads()}
	s.closing, s.close = context.WithCancel(context.Background())
	s.hub = &hub{db: db, log: o.Log, closing: s.closing, run: s.work.Go, load: s.loads.claim, lines: map[string]*line{}}
	s.hub.lookedAt = time.Now()
	if db != nil {
		s.guests = newRoster(db.Register)
		s.work.Go(s.hub.look)
		s.work.Go(s.tellOfGuests)
	}
	for _, rt := range s.routes() {
		s.mux.Handle(rt.method+" "+rt.pattern, s.serve(rt))
	}
	s.showPages()
	return s
}

// Close ends the server's own work. Calls that wait are answered at once, as if their wait were
// over, and those that come later are refused; all others are served as before, so that workers can
// still finish their jobs. Call it when the http.Server's Shutdown begins, as
// [http.Server.RegisterOnShutdown] does, and before the database is closed. It waits for claims
// under way, 10 s at most.
func (s *Server) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.work.Wait()
	return nil
}

// begin makes Close wait for a call, until work.Done is called. A server that is closing refuses the call.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return &problemError{kind: shuttingDown, detail: "send the request to another server"}
	}
	s.work.Add(1)
	return nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.guard(w, r, s.route) }

// route passes a request to its route.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if _, pattern := s.mux.Handler(r); pattern == "" || !isClean(r) {
		err := s.unrouted(r)
		if takesPages(r) {
			text := "There is no page at this address."
			if err.status == http.StatusMethodNotAllowed {
				text = "There is only a form's target at this address, which cannot be opened."
			}
			s.pages.Refused(w, r, err.status, text)
			return
		}
		s.fail(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// serve surrounds the handler of a route with the checks that all routes share.
func (s *Server) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, leave, err := s.enter(rt, w, r)
		if err == nil {
			defer leave()
			if rt.scope != "" { // probes may send any parameters
				_, err = query(r, rt.query...)
			}
		}
		if err == nil {
			err = rt.handle(w, r)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}

// isClean reports whether the mux would take the path as it is. Other paths it would redirect,
// to a wrong address if the server is mounted below a prefix.
func isClean(r *http.Request) bool {
	p := r.URL.EscapedPath()
	return path.Clean(p) == p
}

// unrouted says why no route takes a request: no route has this path, or none has this method.
func (s *Server) unrouted(r *http.Request) *problemError {
	var allow []string
	if isClean(r) {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := s.mux.Handler(other); pattern != "" {
				allow = append(allow, method)
			}
		}
	}
	if len(allow) == 0 {
		return &problemError{kind: unknownRoute, detail: "there is nothing at this path; /openapi.json lists what there is"}
	}
	return &problemError{kind: wrongMethod, detail: "this path takes " + strings.Join(allow, ", "), header: http.Header{"Allow": {strings.Join(allow, ", ")}}}
}
