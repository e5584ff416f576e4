package page

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/words"
)

//go:embed templates assets
var files embed.FS

// templates holds the pages by name, each with the frame around it. They are parsed when a server starts:
// most commands show no pages, and parsing took a quarter of the CPU time that a command needs to begin.
var templates = sync.OnceValue(func() map[string]*template.Template {
	frame := template.Must(template.New("frame.html").Funcs(functions).ParseFS(files, "templates/frame.html", "templates/parts.html"))
	list := map[string]*template.Template{}
	for _, name := range []string{"overview", "queue", "job", "workers", "schedules", "failures", "bulk", "groups", "changes", "settings", "delete", "login", "keys", "problem"} {
		list[name] = template.Must(template.Must(frame.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return list
})

// frame is the data for the template around every page.
type frame struct {
	Name  string // name of the page's template
	Base  string
	Path  string // path of the page, to come back to after a change
	Who   Viewer
	In    bool   // the viewer has logged in
	Done  string // sentence about the change that was just made
	Table bool   // the database is an adopted table, which has fewer pages
	Body  any
}

// refusal is a page that says why a request was refused.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

var errForm = &refusal{http.StatusBadRequest, "The form could not be read."}

// Refuse is an error that the page shows with a status and a text.
func Refuse(status int, text string) error { return &refusal{status, text} }

// render makes the HTML of a page.
func (p *Page) render(r *request, name string, body any) ([]byte, error) {
	var b bytes.Buffer
	f := frame{Name: name, Base: r.base, Path: r.URL.RequestURI(), Who: r.who, In: p.Find != nil && r.who.Reads != nil, Table: p.looks.ofTable(), Body: body}
	if strings.HasPrefix(f.Path, "//") {
		f.Path = "/"
	}
	if done, err := r.Cookie("dibs-done"); err == nil {
		text, err := base64.RawURLEncoding.DecodeString(done.Value)
		if err == nil {
			f.Done = string(text)
		}
		setCookie(r.w, r.Request, "dibs-done", "", -time.Second)
	}
	err := templates()[name].ExecuteTemplate(&b, "frame.html", f)
	return b.Bytes(), err
}

// write answers with a page.
func (p *Page) write(r *request, status int, name string, body any) {
	text, err := p.render(r, name, body)
	if err != nil {
		p.Log.Error("page failed", "page", name, "error", err.Error())
		http.Error(r.w, "The page could not be made; the server's log tells more.", http.StatusInternalServerError)
		return
	}
	writeHTML(r.w, status, text)
}

func writeHTML(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error is ignored: the client is gone
}

// problemView is a page that says what went wrong.
type problemView struct {
	Title, Text string
	Back        string // path, from the root, of the page whose form was refused; empty: there is none
}

// fail answers with a page that shows an error.
func (p *Page) fail(r *request, err error) {
	status, v := problemOf(err)
	if status == http.StatusInternalServerError {
		p.Log.Error("page failed", "page", r.Pattern, "error", err.Error())
	}
	switch {
	case r.Method == http.MethodPost:
		v.Back = strings.TrimPrefix(formOf(r), "/")
	case status == http.StatusServiceUnavailable:
		r.w.Header().Set("Refresh", "5")
		v.Text += " This page tries again every five seconds."
	}
	p.write(r, status, "problem", v)
}

// formOf is the path of the page from which a form was sent, or "/" if that is not known.
func formOf(r *request) string {
	back := localPath(r.PostFormValue("back"))
	if queue := r.PathValue("queue"); back == "/" && queue != "" {
		return "/queues/" + segment(queue)
	}
	return back
}

// Refused answers a visitor of an address that there is not, or that may not be visited now.
func (p *Page) Refused(w http.ResponseWriter, r *http.Request, status int, text string) {
	secure(w.Header())
	who, _ := p.viewer(r)
	p.fail(newRequest(w, r, who), Refuse(status, text))
}

func problemOf(err error) (int, problemView) {
	var own *refusal
	var rule *dibs.InvalidError
	switch {
	case errors.As(err, &own):
		return own.status, problemView{Title: http.StatusText(own.status), Text: own.text}
	case errors.As(err, &rule):
		return http.StatusUnprocessableEntity, problemView{Title: "Not possible", Text: rule.Error()}
	case errors.Is(err, dibs.ErrNotFound), errors.Is(err, dibs.ErrUnknownQueue), errors.Is(err, dibs.ErrUnknownSchedule):
		return http.StatusNotFound, problemView{Title: "Not found", Text: strings.TrimPrefix(err.Error(), "dibs: ")}
	case errors.Is(err, dibs.ErrQueueInUse):
		return http.StatusConflict, problemView{Title: "The queue is in use", Text: strings.TrimPrefix(err.Error(), dibs.ErrQueueInUse.Error()+": ") + "."}
	case errors.Is(err, dibs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, problemView{Title: "The database does not answer", Text: "It may pass."}
	case errors.Is(err, errors.ErrUnsupported):
		return http.StatusNotImplemented, problemView{Title: "Not possible here", Text: strings.TrimSuffix(strings.TrimPrefix(err.Error(), "dibs: "), ": "+errors.ErrUnsupported.Error()) + "."}
	case errors.Is(err, dibs.ErrDenied):
		return http.StatusInternalServerError, problemView{Title: "Not allowed", Text: "The database denies the server a right; the server's log tells which."}
	case errors.Is(err, dibs.ErrSchema):
		return http.StatusServiceUnavailable, problemView{Title: "No dibs here", Text: "The database has no dibs schema of this version: see 'dibs migrate'."}
	}
	return http.StatusInternalServerError, problemView{Title: "The server has failed", Text: "Its log tells more."}
}

// callTime is how long the database may take to answer a page.
const callTime = 10 * time.Second

// shows makes the handler of a page that changes nothing. What it shows may be a second old, so the
// page is made once a second, however many look at it.
func (p *Page) shows(pattern string, f func(*request) (any, error)) http.HandlerFunc {
	name := pageName(pattern)
	return func(w http.ResponseWriter, plain *http.Request) {
		secure(w.Header())
		who, known := p.viewer(plain)
		r := newRequest(w, plain, who)
		if !known {
			p.askIn(r)
			return
		}
		make := func() ([]byte, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(plain.Context()), callTime)
			defer cancel()
			own := *r
			own.Request = plain.WithContext(ctx)
			body, err := f(&own)
			if err != nil {
				return nil, err
			}
			return p.render(&own, name, body)
		}
		var text []byte
		var err error
		if _, done := plain.Cookie("dibs-done"); done == nil {
			text, err = make()
		} else {
			text, err = p.pages.get(who.Name+"\x00"+r.base+"\x00"+plain.URL.RequestURI(), make)
		}
		if err != nil {
			p.fail(r, err)
			return
		}
		writeHTML(w, http.StatusOK, text)
	}
}

// pageName is the name of a route's template.
func pageName(pattern string) string {
	name, _, _ := strings.Cut(strings.Trim(pattern, "/"), "/")
	switch name {
	case "{$}":
		return "overview"
	case "queues", "jobs":
		return strings.TrimSuffix(name, "s")
	}
	return name
}

// askIn sends a viewer who has not logged in to the login, and from there back; after a form, which was not accepted,
// back to the form's page. If the request comes from another site, the browser has sent no cookie at first: then it
// is asked to load the page once more, from here.
func (p *Page) askIn(r *request) {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Method == http.MethodGet {
		r.w.Header().Set("Refresh", "0")
		writeHTML(r.w, http.StatusOK, []byte("<!doctype html><title>dibs</title>"))
		return
	}
	if r.Header.Get("Sec-Fetch-Mode") == "cors" { // the page's script has sent the request: its page stays as it is
		p.write(r, http.StatusUnauthorized, "problem", problemView{Title: "Log in", Text: "The session is over."})
		return
	}
	back := r.URL.RequestURI()
	if r.Method != http.MethodGet {
		r.Body = http.MaxBytesReader(r.w, r.Body, maxForm)
		back = localPath(r.PostFormValue("back"))
	}
	redirect(r.w, r.base+"login?back="+url.QueryEscape(back))
}

// acts makes the handler of a change. It makes the change, and leads to a page that says what was done.
func (p *Page) acts(f func(*request) (to, done string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, plain *http.Request) {
		secure(w.Header())
		who, known := p.viewer(plain)
		r := newRequest(w, plain, who)
		if !known {
			p.askIn(r)
			return
		}
		plain.Body = http.MaxBytesReader(w, plain.Body, maxForm)
		if err := plain.ParseForm(); err != nil {
			p.fail(r, errForm)
			return
		}
		to, done, err := f(r)
		if r.changed {
			p.pages.clear()
			p.failed.clear()
			p.looks.forget()
		}
		switch {
		case err != nil:
			p.fail(r, err)
			return
		case done != "":
			setCookie(w, plain, "dibs-done", base64.RawURLEncoding.EncodeToString([]byte(words.Clip(done, 500))), time.Minute)
		}
		if to == "" {
			to = localPath(plain.PostFormValue("back"))
		}
		if to != answered {
			redirect(w, r.base+strings.TrimPrefix(to, "/"))
		}
	}
}

// answered is returned in place of a path by a change that has written an answer itself.
const answered = "\x00"

// asset serves a file that browsers may keep for a while.
func asset(name, media string) http.HandlerFunc {
	text, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // cannot happen: it is built in
	}
	return func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		w.Header().Set("Cache-Control", "private, max-age=60")
		w.Header().Set("Content-Type", media)
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text)
	}
}
