package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Problem is the body of every answer that is an error: problem details as in RFC 9457.
type Problem struct {
	Type   string `json:"type"`             // URL of the page that describes this kind of problem
	Title  string `json:"title"`            // the kind of problem in words
	Status int    `json:"status"`           // status of the answer, or of this part of the answer
	Detail string `json:"detail,omitempty"` // what was wrong this time
	Field  string `json:"field,omitempty"`  // the part of the input that is wrong, such as "jobs[3].priority"
	Reason string `json:"reason,omitempty"` // the rule that Field breaks
	// Instance names the request, as its header X-Request-Id and the server's log do.
	Instance string `json:"instance,omitempty"`
}

// problemTypes is the page that describes each kind of problem under its own heading.
const problemTypes = "https://github.com/dibs-queue/dibs/blob/main/docs/howto/http.md#"

// kind is one kind of problem.
type kind struct {
	name   string // last part of Problem.Type
	status int
	title  string
}

// The kinds of problems.
var (
	malformed     = kind{"malformed", http.StatusBadRequest, "The request cannot be read"}
	unauthorized  = kind{"unauthorized", http.StatusUnauthorized, "No valid token"}
	forbidden     = kind{"forbidden", http.StatusForbidden, "Not allowed"}
	misdirected   = kind{"foreign-host", http.StatusMisdirectedRequest, "Not a name of this server"}
	unknownRoute  = kind{"unknown-route", http.StatusNotFound, "No such path"}
	notFound      = kind{"not-found", http.StatusNotFound, "No such job, queue or schedule"}
	wrongMethod   = kind{"wrong-method", http.StatusMethodNotAllowed, "No such method"}
	leaseLost     = kind{"lease-lost", http.StatusConflict, "Lease lost"}
	queueInUse    = kind{"queue-in-use", http.StatusConflict, "The queue is in use"}
	tooLarge      = kind{"too-large", http.StatusRequestEntityTooLarge, "The request is too large"}
	wrongMedia    = kind{"wrong-media-type", http.StatusUnsupportedMediaType, "The body is not of this media type"}
	invalid       = kind{"invalid", http.StatusUnprocessableEntity, "Invalid input"}
	tooMany       = kind{"too-many-clients", http.StatusServiceUnavailable, "Too many clients"}
	unsupported   = kind{"unsupported", http.StatusNotImplemented, "Not possible here"}
	internal      = kind{"internal", http.StatusInternalServerError, "The server has failed"}
	denied        = kind{"denied", http.StatusInternalServerError, "The database denies the server a right"}
	wrongSchema   = kind{"schema", http.StatusServiceUnavailable, "The database has no dibs schema of this version"}
	unavailable   = kind{"unavailable", http.StatusServiceUnavailable, "The database is unavailable"}
	shuttingDown  = kind{"shutting-down", http.StatusServiceUnavailable, "The server is shutting down"}
	clientTimeout = kind{"timeout", http.StatusRequestTimeout, "The request took too long"}
)

// problemError is a problem that the server itself has found, in a handler or before it.
type problemError struct {
	kind
	detail string
	field  string
	header http.Header // headers of the answer
}

func (e *problemError) Error() string { return e.name + ": " + e.detail }

// retryAfter is how many seconds a client should wait while the database is unreachable.
const retryAfter = "1"

// problemOf turns an error into the problem that the client is shown, and the headers of the
// answer. The text of an unexpected error goes only into the log, as it may tell about the
// inside of the server.
func problemOf(err error) (Problem, http.Header) {
	var own *problemError
	var rule *dibs.InvalidError
	var long *http.MaxBytesError
	var readOnly *checks.ReadOnlyError
	switch {
	case errors.As(err, &own):
		p := own.problem(own.detail)
		if p.Field = own.field; p.Field != "" {
			p.Reason, p.Detail = own.detail, own.field+": "+own.detail
		}
		return p, own.header
	case errors.As(err, &rule):
		p := invalid.problem(rule.Error())
		p.Field, p.Reason = rule.Field, rule.Reason
		return p, nil
	case errors.As(err, &long):
		return tooLarge.problem(fmt.Sprintf("the body is longer than %d bytes", long.Limit)), nil
	case errors.Is(err, dibs.ErrNotFound), errors.Is(err, dibs.ErrUnknownQueue), errors.Is(err, dibs.ErrUnknownSchedule):
		return notFound.problem(strings.TrimPrefix(err.Error(), "dibs: ")), nil
	case errors.Is(err, dibs.ErrQueueInUse):
		return queueInUse.problem(strings.TrimPrefix(err.Error(), dibs.ErrQueueInUse.Error()+": ")), nil
	case errors.As(err, &readOnly):
		return unavailable.problem(readOnly.Why + "; nothing was written, and calls that only read go on"), nil
	case errors.Is(err, dibs.ErrUnavailable):
		return unavailable.problem("it may pass: try again; it is not known whether this call took effect"), nil
	case errors.Is(err, dibs.ErrLeaseLost):
		return leaseLost.problem(strings.TrimPrefix(err.Error(), "dibs: ")), nil
	case errors.Is(err, errors.ErrUnsupported):
		return unsupported.problem(strings.TrimPrefix(strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error()), "dibs: ")), nil
	case errors.Is(err, dibs.ErrDenied):
		return denied.problem("the server's log tells which"), nil
	case errors.Is(err, dibs.ErrSchema):
		return wrongSchema.problem("see 'dibs migrate'"), nil
	case errors.Is(err, dibs.ErrClosed):
		return shuttingDown.problem(""), nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable.problem("the call was broken off; it is not known whether it took effect"), nil
	}
	return internal.problem("the server's log tells more"), nil
}

func (k kind) problem(detail string) Problem {
	return Problem{Type: problemTypes + k.name, Title: k.title, Status: k.status, Detail: detail}
}

// fail answers with the problem for an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p, header := problemOf(err)
	p.Instance = instanceOf(r)
	if e := entryOf(r); e != nil {
		if own := (*problemError)(nil); p.Status >= http.StatusInternalServerError && p.Status != unsupported.status && !errors.As(err, &own) {
			e.err = err
		}
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	_ = replyProblem(w, p.Status, p)
}

// log tells the operator about an error whose text the client does not get.
func (s *Server) log(call string, err error) {
	s.Log.LogAttrs(context.Background(), slog.LevelError, "request failed", slog.String("call", call), slog.String("error", err.Error()))
}

// replyProblem answers with a Problem, or with a struct that holds one.
func replyProblem(w http.ResponseWriter, status int, body any) error {
	return write(w, "application/problem+json", status, body)
}

// reply answers with a value as JSON.
func reply(w http.ResponseWriter, status int, body any) error {
	return write(w, "application/json", status, body)
}

// write sends an answer. It ignores errors of sending: the client is gone. If there is no memory for the answer,
// it refuses only one that the client can ask for again.
func write(w http.ResponseWriter, media string, status int, body any) error {
	text := encoded(body)
	if a, ours := w.(*answer); ours && a.reads && status < http.StatusBadRequest {
		if err := a.room.set(len(text)); err != nil {
			return err
		}
	}
	text = pack(w, text)
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
	return nil
}

// encoded is a value as one line of JSON, with the end of the line.
func encoded(body any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		panic(err) // cannot happen: checks.Legible makes payloads that encode
	}
	return b.Bytes()
}
