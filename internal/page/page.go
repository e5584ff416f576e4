// Package page is what a server shows to people: queues, jobs, failures, workers and schedules, to
// look at and to change. Every page is HTML that needs no script; a script keeps what is
// shown up to date. Nothing is loaded from elsewhere.
package page

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Options are what a page needs of its server.
type Options struct {
	DB  admin.Database
	Log *slog.Logger // receives errors
	// Jobs and Job load jobs, within the memory that the server has for answers: Jobs a page of a list, Job one by its
	// id.
	Jobs func(*http.Request, admin.Filter) (admin.Page, error)
	Job  func(r *http.Request, id int64) (*dibs.RawJob, error)
	// Look runs a read of the database that loads no jobs. Reads for viewers share a part of the connections; Jobs and
	// Job use the same part, so neither may be called within Look.
	Look func(r *http.Request, read func() error) error
	// Note records what a request has changed, in the log and for the page of changes.
	Note func(*http.Request, admin.Change)
	// Find looks up the holder of a token. The function that it returns is called for each request of the
	// session, as tokens can be taken away; if it is nil, nobody holds the token. If Find itself is nil, nobody
	// needs a token.
	Find func(token string) func() (Viewer, bool)
	// Closing ends when the server closes. Go starts a goroutine for whose end Close waits.
	Closing context.Context
	Go      func(func())
}

// Viewer is who looks at a page.
type Viewer struct {
	Name string // name of the token; empty if there are no tokens
	// Reads and Changes report whether the viewer may look at a queue, and whether they may change the queue and
	// its jobs. The empty name stands for all queues.
	Reads, Changes func(queue string) bool
}

// everybody is the viewer if nobody needs a token.
var everybody = Viewer{Reads: anyQueue, Changes: anyQueue}

func anyQueue(string) bool { return true }

// Page answers the requests of browsers.
type Page struct {
	Options
	sessions sessions
	looks    looks
	pages    cache[[]byte]
	failed   cache[failed]
	hours    cache[[]admin.Minute] // the last hour of queues, for charts
	live     live
}

// New makes a page.
func New(o Options) *Page {
	p := &Page{Options: o}
	templates()
	p.looks.db = o.DB
	p.pages.fresh, p.pages.most = fresh, 200
	p.failed.fresh, p.failed.most = failuresFresh, 50
	p.hours.fresh, p.hours.most = chartFresh, 200
	return p
}

// Route is one of the addresses that a Page answers.
type Route struct {
	Pattern string // pattern of http.ServeMux
	Handler http.HandlerFunc
	Stays   bool // the answer goes on as long as the client likes
}

// Routes are all addresses that a Page answers.
func (p *Page) Routes() []Route {
	get := func(pattern string, f func(*request) (any, error)) Route {
		return Route{Pattern: "GET " + pattern, Handler: p.shows(pattern, f)}
	}
	list := []Route{
		get("/{$}", p.overview),
		get("/queues/{queue}", p.queue),
		get("/jobs/{id}", p.job),
		get("/workers", p.workers),
		get("/schedules", p.schedules),
		get("/failures", p.failures),
		get("/groups", p.groups),
		get("/changes", p.changes),
		get("/keys", p.keys),
		{Pattern: "GET /find", Handler: p.acts(p.find)},
		{Pattern: "GET /login", Handler: p.loginForm},
		{Pattern: "POST /login", Handler: p.logIn},
		{Pattern: "POST /logout", Handler: p.logOut},
		{Pattern: "GET /live", Handler: p.serveLive, Stays: true},
		{Pattern: "GET /page.css", Handler: asset("page.css", "text/css; charset=utf-8")},
		{Pattern: "GET /page.js", Handler: asset("page.js", "text/javascript; charset=utf-8")},
		{Pattern: "GET /favicon.svg", Handler: asset("favicon.svg", "image/svg+xml")},
	}
	for path, f := range p.actions() {
		list = append(list, Route{Pattern: "POST " + path, Handler: p.acts(f)})
	}
	return list
}

// request is a request by somebody who may see pages.
type request struct {
	*http.Request
	w    http.ResponseWriter
	who  Viewer
	base string // relative path from the page to the root, as the server may be mounted below a prefix

	changed bool // the request has changed something, so cached looks are old
}

func newRequest(w http.ResponseWriter, r *http.Request, who Viewer) *request {
	for _, name := range []string{"queue", "name"} {
		if text := r.PathValue(name); text != "" {
			r.SetPathValue(name, named(text))
		}
	}
	return &request{Request: r, w: w, who: who, base: baseOf(r)}
}

// baseOf is the relative path from a request's path to the root.
func baseOf(r *http.Request) string {
	depth := strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if depth == 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}

// secure sets the headers of every answer: browsers load scripts, styles and pictures only from this server, and show
// the page in no frame.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// mayRead returns an error where the viewer may not look at a queue.
func (r *request) mayRead(queue string) error {
	if r.who.Reads(queue) {
		return nil
	}
	return &refusal{http.StatusForbidden, "Your token does not let you look at " + what(queue) + "."}
}

// mayChange returns an error where the viewer may not change a queue or its jobs.
func (r *request) mayChange(queue string) error {
	if r.who.Changes(queue) {
		return nil
	}
	return &refusal{http.StatusForbidden, "Your token lets you look only: it has not the scope admin for " + what(queue) + "."}
}

func what(queue string) string {
	if queue == "" {
		return "all queues at once"
	}
	return "the queue " + oneLine(queue)
}
