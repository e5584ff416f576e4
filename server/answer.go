package server

import (
	"net/http"
	"time"
)

// answer is the http.ResponseWriter of a request. It notes what was answered, for the log, and waits only
// so long for a client to read it.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int   // 0: none yet
	bytes   int64 // of the body, as they were sent
	// time is how long the http.Server waits for clients to read; 0: as long as they like. Deadlines are set
	// only where it does not: it sets its own for each request, so that none is left on a connection.
	time     time.Duration
	stream   bool // each write has all the time again
	deadline time.Time
}

func newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	a := &answer{ResponseWriter: w, control: http.NewResponseController(w)}
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		a.time = max(server.WriteTimeout, 0)
	}
	return a
}

// patient takes the deadline away until something is written: the call may wait for long.
func (a *answer) patient() {
	if a.stream = true; a.time > 0 {
		_ = a.control.SetWriteDeadline(time.Time{})
	}
}

// WriteHeader notes the status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes in parts, each with a deadline of its own.
func (a *answer) Write(p []byte) (written int, err error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	for {
		part := p[written:min(len(p), written+4*slowest)]
		a.await(len(part))
		n, err := a.ResponseWriter.Write(part)
		written += n
		a.bytes += int64(n)
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// Flush sends what was written so far.
func (a *answer) Flush() {
	a.await(0)
	_ = a.control.Flush() // a client that is gone is noticed by the next write
}

// await sets the deadline for the next n bytes.
func (a *answer) await(n int) {
	if a.time == 0 {
		return
	}
	if a.stream || a.deadline.IsZero() {
		a.deadline = time.Now().Add(a.time)
	}
	a.deadline = a.deadline.Add(time.Duration(n) * time.Second / slowest)
	_ = a.control.SetWriteDeadline(a.deadline) // where it cannot be set, the http.Server's own holds
}

// Unwrap lets http.ResponseController find the http.Server's own.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
