package server

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/page"
)

// showPages adds the pages for people to the routes.
func (s *Server) showPages() {
	o := page.Options{DB: s.db, Log: s.Log, Note: s.note, Closing: s.closing, Go: s.work.Go}
	o.Jobs = func(r *http.Request, f admin.Filter) (admin.Page, error) {
		all, err := s.page(r, f)
		return all, shownProblem(err)
	}
	o.Job = func(r *http.Request, id int64) (*dibs.RawJob, error) {
		job, err := s.job(r, id)
		return job, shownProblem(err)
	}
	o.Look = func(r *http.Request, call func() error) error { return s.loads.show(r, 0, call) }
	if s.Tokens != nil {
		o.Find = s.holder
	}
	s.pages = page.New(o)
	for _, rt := range s.pages.Routes() {
		s.mux.HandleFunc(rt.Pattern, func(w http.ResponseWriter, r *http.Request) {
			leave, err := s.visit(rt, w, r)
			if err != nil {
				s.fail(w, r, err)
				return
			}
			defer leave()
			rt.Handler(w, r)
		})
	}
}

// visit limits the form that a request for a page sends. A request that stays open counts as waiting. Its caller calls
// leave after the handler.
func (s *Server) visit(rt page.Route, w http.ResponseWriter, r *http.Request) (leave func(), err error) {
	if !rt.Stays {
		return s.openBody(route{}, w, r)
	}
	e := entryOf(r)
	e.long = true
	e.answer.patient()
	if err := s.begin(); err != nil {
		return nil, err
	}
	done, err := s.waitSeat(r)
	if err != nil {
		s.work.Done()
		return nil, err
	}
	return func() {
		done()
		s.work.Done()
	}, nil
}

// shownProblem turns a problem that the server has found into one that the page shows.
func shownProblem(err error) error {
	if own := (*problemError)(nil); errors.As(err, &own) {
		return page.Refuse(own.status, own.detail)
	}
	return err
}

// takesPages reports whether the client is a browser that asks for a page.
func takesPages(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.HasPrefix(r.URL.Path, "/v1/") && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// holder looks up the holder of a token that may look at anything at all.
func (s *Server) holder(token string) func() (page.Viewer, bool) {
	if s.Tokens.find(token) == nil {
		return nil
	}
	hash := sha256.Sum256([]byte(token))
	look := func() (page.Viewer, bool) {
		list := *s.Tokens.list.Load()
		i := slices.IndexFunc(list, func(g *grant) bool { return g.hash == hash })
		if i < 0 { // the token was taken away
			return page.Viewer{}, false
		}
		reads, some := list[i].uses(ScopeRead)
		changes, _ := list[i].uses(ScopeAdmin)
		return page.Viewer{Name: list[i].name, Reads: reads, Changes: changes}, some
	}
	if _, some := look(); !some {
		return nil
	}
	return look
}

// uses returns a function that reports for which queues a grant has a scope; some: there are any. The empty name stands
// for all queues at once.
func (g *grant) uses(scope Scope) (uses func(queue string) bool, some bool) {
	names, has := g.queuesOf(scope)
	return func(queue string) bool {
		return has && (names == nil || queue != "" && slices.Contains(names, queue))
	}, has
}

// isVisit reports whether a browser opens a page, for example by a link. The page that has the link cannot read the
// answer.
func isVisit(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/v1/") &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
