package page

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	sessionTime = 12 * time.Hour
	maxSessions = 10_000 // if there are more, the oldest sessions end
	maxOfToken  = 100    // most sessions of one token, so that it does not end the sessions of others
	maxForm     = 64 << 10
)

// sessions holds those who have logged in, by the value of their cookies: a random word, not derived
// from the token.
type sessions struct {
	mu   sync.Mutex
	list map[string]session
}

type session struct {
	who   func() (Viewer, bool)
	name  string // name of the token
	until time.Time
}

// add begins a session.
func (s *sessions) add(who func() (Viewer, bool)) (id string) {
	viewer, _ := who()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = map[string]session{}
	}
	now := time.Now()
	var all, own []string
	for id, one := range s.list {
		if one.until.Before(now) {
			delete(s.list, id)
			continue
		}
		if all = append(all, id); one.name == viewer.Name {
			own = append(own, id)
		}
	}
	if len(own) >= maxOfToken {
		s.endOldest(own)
	} else if len(all) >= maxSessions {
		s.endOldest(all)
	}
	id = rand.Text()
	s.list[id] = session{who, viewer.Name, now.Add(sessionTime)}
	return id
}

func (s *sessions) endOldest(ids []string) {
	delete(s.list, slices.MinFunc(ids, func(a, b string) int { return s.list[a].until.Compare(s.list[b].until) }))
}

// find returns the viewer of a session. If the session's token was taken away, the session ends,
// so that it does not come back with the token.
func (s *sessions) find(id string) (Viewer, bool) {
	s.mu.Lock()
	one, found := s.list[id]
	s.mu.Unlock()
	if !found || one.until.Before(time.Now()) {
		return Viewer{}, false
	}
	viewer, holds := one.who()
	if !holds {
		s.end(id)
	}
	return viewer, holds
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.list, id)
}

// cookieName is the name of the cookie. If the connection uses HTTPS, it is one that browsers accept only over HTTPS.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Secure-dibs"
	}
	return "dibs"
}

// viewer returns who has sent a request.
func (p *Page) viewer(r *http.Request) (Viewer, bool) {
	if p.Find == nil {
		return everybody, true
	}
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return Viewer{}, false
	}
	return p.sessions.find(c.Value)
}

// Visitor is the name of the token of who has sent a request; empty: nobody who has logged in.
func (p *Page) Visitor(r *http.Request) string {
	who, _ := p.viewer(r)
	return who.Name
}

func setCookie(w http.ResponseWriter, r *http.Request, name, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, MaxAge: int(age / time.Second), Path: "/",
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
}

// loginForm asks for a token.
func (p *Page) loginForm(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	p.write(newRequest(w, r, Viewer{}), http.StatusOK, "login", loginView{Back: localPath(r.URL.Query().Get("back"))})
}

type loginView struct {
	Back  string
	Wrong bool
}

// logIn begins a session if the form has a valid token.
func (p *Page) logIn(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		p.fail(newRequest(w, r, Viewer{}), errForm)
		return
	}
	token, back := strings.TrimSpace(r.PostFormValue("token")), localPath(r.PostFormValue("back"))
	if p.Find != nil {
		who := p.Find(token)
		if who == nil {
			p.write(newRequest(w, r, Viewer{}), http.StatusForbidden, "login", loginView{back, true})
			return
		}
		setCookie(w, r, cookieName(r), p.sessions.add(who), sessionTime)
	}
	redirect(w, baseOf(r)+strings.TrimPrefix(back, "/"))
}

// logOut ends a session.
func (p *Page) logOut(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if c, err := r.Cookie(cookieName(r)); err == nil {
		p.sessions.end(c.Value)
	}
	setCookie(w, r, cookieName(r), "", -time.Second)
	redirect(w, baseOf(r)+"login")
}

// localPath returns path if it is a path on this server, with its query, and otherwise the root.
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n") || slices.ContainsFunc(strings.Split(u.EscapedPath(), "/"), leadsUp) {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

// leadsUp reports whether a part of a path is "." or "..", however it is written.
func leadsUp(part string) bool {
	name, err := url.PathUnescape(part)
	return err != nil || name == "." || name == ".."
}

// redirect leads to an address relative to the request's, since the server does not know below which prefix
// it is mounted.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
