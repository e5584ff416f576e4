package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"
)

// entryKey is the key of a request's log entry among the values of its context.
type entryKey struct{}

// entry is what the log says of a request.
type entry struct {
	id     string
	token  string // the name of the caller's token
	err    error  // why the server has failed
	start  time.Time
	own    *seats // the share of its token; nil: none
	long   bool   // it may take as long as the client likes
	served func() // takes it from those that are served at once
	answer *answer
}

// entryOf returns the entry of a request, or nil.
func entryOf(r *http.Request) *entry {
	e, _ := r.Context().Value(entryKey{}).(*entry)
	return e
}

// instanceOf names a request in its problem.
func instanceOf(r *http.Request) string {
	if e := entryOf(r); e != nil {
		return requestURN + e.id
	}
	return ""
}

// requestHeader names a request, in the log and to the client.
const (
	requestHeader = "X-Request-Id"
	requestURN    = "urn:dibs:request:" // before the name, in Problem.Instance
)

// saneID is what a client may name its request: it goes into the log, and into a URN.
var saneID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID is the client's name of a request, or a new one.
func requestID(r *http.Request) string {
	if given := r.Header.Get(requestHeader); saneID.MatchString(given) {
		return given
	}
	return rand.Text()
}

// slow is when a request that does not wait for anything gets into the log as slow.
const slow = 5 * time.Second

// record writes the log's line of a request: always at the level Debug, but what failed is an Error, and what took
// long a Warning. It holds no path, payload or header, which may be secret or anything else.
func (s *Server) record(e *entry, a *answer, r *http.Request) {
	took := time.Since(e.start)
	level, text := slog.LevelDebug, "request"
	switch {
	case e.err != nil && !errors.Is(r.Context().Err(), context.Canceled): // else the client is gone
		level, text = slog.LevelError, "request failed"
	case took > slow && !e.long:
		level, text = slog.LevelWarn, "slow request"
	}
	if !s.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("id", e.id), slog.String("method", r.Method[:min(len(r.Method), 10)]), slog.String("route", r.Pattern), slog.Int("status", a.status),
		slog.Int64("bytes", a.bytes), slog.Duration("took", took.Round(time.Microsecond)), slog.String("client", r.RemoteAddr),
	}
	if e.token != "" {
		attrs = append(attrs, slog.String("token", e.token))
	}
	if e.err != nil {
		attrs = append(attrs, slog.String("error", e.err.Error()))
	}
	s.Log.LogAttrs(context.WithoutCancel(r.Context()), level, text, attrs...)
}

// recovered makes an answer of a handler's panic.
func (s *Server) recovered(a *answer, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, _ := p.(error); errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	s.Log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("route", r.Pattern), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	if a.status != 0 {
		panic(http.ErrAbortHandler) // the client must not take half an answer for a whole one
	}
	a.Header().Del("Content-Encoding")
	s.fail(a, r, &problemError{kind: internal, detail: "the server's log tells more"})
}
