package server

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// answer is the http.ResponseWriter of a request. It notes for the log what was answered, and waits only
// for a limited time for a client to read the answer.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int   // status of the answer; 0: it has not begun
	bytes   int64 // bytes of the body that were sent
	gzip    bool  // the client accepts it
	reads   bool  // the request changes nothing
	room    room  // the memory that the answer takes
	// most is how long the http.Server waits for a client to read; 0: as long as the client likes. Deadlines are
	// set only if it is not 0: then the http.Server sets a new one for each request, so none of these outlasts
	// the request on its connection.
	most     time.Duration
	patience time.Duration // how much of most is left
	fixed    atomic.Bool   // a handler has set the deadline
}

func newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	a := &answer{ResponseWriter: w, control: http.NewResponseController(w), gzip: acceptsGzip(r)}
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		a.most = max(server.WriteTimeout, 0)
		a.patience = a.most
	}
	return a
}

// patient removes the deadline until something is written, as the call may wait for long.
func (a *answer) patient() {
	if a.most > 0 {
		_ = a.control.SetWriteDeadline(time.Time{})
	}
}

// hurry makes the server wait for the client to read for at most this time.
func (a *answer) hurry(most time.Duration) {
	if a.most > 0 {
		a.most = min(a.most, most)
		a.patience = a.most
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
		begin := a.await()
		n, err := a.ResponseWriter.Write(part)
		a.patience = earned(a.patience-time.Since(begin), n, a.most)
		written += n
		a.bytes += int64(n)
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// FlushError sends what was written so far.
func (a *answer) FlushError() error {
	begin := a.await()
	err := a.control.Flush()
	a.patience -= time.Since(begin)
	return err
}

// SetWriteDeadline sets a deadline that no write moves.
func (a *answer) SetWriteDeadline(deadline time.Time) error {
	a.fixed.Store(true)
	return a.control.SetWriteDeadline(deadline)
}

// await sets the deadline for the next bytes.
func (a *answer) await() (now time.Time) {
	now = time.Now()
	if a.most > 0 && !a.fixed.Load() {
		_ = a.control.SetWriteDeadline(now.Add(a.patience)) // an error is ignored: the deadline of the http.Server stays
	}
	return now
}

// Unwrap lets http.ResponseController find the http.Server's own.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// minPack is the size in bytes from which on answers are packed.
const minPack = 1 << 10

// packers are gzip.Writers that no request uses. Their level costs the server the least time.
var packers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // cannot happen: the level is valid
	}
	return w
}}

// pack packs an answer for a client that accepts gzip.
func pack(w http.ResponseWriter, text []byte) []byte {
	a, ours := w.(*answer)
	if !ours || len(text) < minPack {
		return text
	}
	w.Header().Add("Vary", "Accept-Encoding")
	if !a.gzip {
		return text
	}
	var packed bytes.Buffer
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(&packed)
	_, err := z.Write(text)
	if z.Close() != nil || err != nil { // cannot happen: writing to a buffer never fails
		return text
	}
	w.Header().Set("Content-Encoding", "gzip")
	return packed.Bytes()
}

// acceptsGzip reports whether a client unpacks gzip.
func acceptsGzip(r *http.Request) bool {
	for _, list := range r.Header.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(list, ",") {
			name, weight, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				return strings.Trim(weight, " \t") == "" || strings.ContainsAny(weight, "123456789")
			}
		}
	}
	return false
}
