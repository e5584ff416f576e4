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

// entry holds what the log says about a request.
type entry struct {
	id     string
	token  string // name of the caller's token
	err    error  // the server's error, if it failed
	start  time.Time
	own    *seats // the seats of the request's token; nil: the token has no limit of its own
	long   bool   // the request may take as long as the client likes
	served func() // ends the count of the request as being served
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
	requestURN    = "urn:dibs:request:" // stands before the request's name in Problem.Instance
)

// saneID matches names that a client may give a request: the name is written into the log, and into a URN.
var saneID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID is the name that the client has given the request, or a new one.
func requestID(r *http.Request) string {
	if given := r.Header.Get(requestHeader); saneID.MatchString(given) {
		return given
	}
	return rand.Text()
}

// slow is how long a request that does not wait may take before it is logged as slow.
const slow = 5 * time.Second

// record writes the log's line about a request: with the level Debug, or Warn if the request took long, or Error
// if the server has failed. The line has no path, payload or header: these may hold secrets, or any text.
func (s *Server) record(e *entry, a *answer, r *http.Request) {
	took := time.Since(e.start)
	level, text := slog.LevelDebug, "request"
	switch {
	case e.err != nil && !errors.Is(r.Context().Err(), context.Canceled): // after a cancelled context the client is gone, which is no failure
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

// recovered answers a request whose handler has panicked.
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
		panic(http.ErrAbortHandler) // break the connection off, so that the client does not take half an answer for a whole one
	}
	a.Header().Del("Content-Encoding")
	s.fail(a, r, &problemError{kind: internal, detail: "the server's log tells more"})
}
