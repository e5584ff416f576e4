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

// answer is the http.ResponseWriter of a request. It notes what was answered, for the log, and waits only
// so long for a client to read it.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int   // 0: none yet
	bytes   int64 // of the body, as they were sent
	gzip    bool  // the client accepts it
	reads   bool  // the request only looks at something
	room    room  // the memory that it takes
	// most is how long the http.Server waits for a client to read; 0: as long as the client likes. Deadlines are
	// set only where it is not: it sets its own for each request, so that none is left on a connection.
	most     time.Duration
	patience time.Duration // what is left of it
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

// patient takes the deadline away until something is written: the call may wait for long.
func (a *answer) patient() {
	if a.most > 0 {
		_ = a.control.SetWriteDeadline(time.Time{})
	}
}

// hurry has the server wait at most so long for the client to read.
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
		_ = a.control.SetWriteDeadline(now.Add(a.patience)) // where it cannot be set, the http.Server's own holds
	}
	return now
}

// Unwrap lets http.ResponseController find the http.Server's own.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// minPack is how long an answer must be to be packed, in bytes.
const minPack = 1 << 10

// packers are the gzip.Writers of no request. Their level costs the server least time.
var packers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // cannot happen: the level is one
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
	if z.Close() != nil || err != nil { // cannot happen: a buffer takes all
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
