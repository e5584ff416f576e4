package server

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"sync"
	"time"
)

// streamType is the media type of jobs that are enqueued as they come, one a line.
const streamType = "application/x-ndjson"

// body is the body of a request, read within the limits.
type body struct {
	server  *Server
	control *http.ResponseController
	from    io.ReadCloser // what the client sends
	gzip    *gzip.Reader  // unpacks from; nil: unpacking has not begun
	packed  bool
	stream  bool
	http2   bool

	mu       sync.Mutex
	cut      bool          // nothing more may be read
	ended    bool          // the body was read to its end
	patience time.Duration // how long the server still waits for the client to send
	most     time.Duration // patience never grows beyond this
	read     int64         // unpacked bytes read since the last release, without those that were dropped
	held     int64         // bytes of it that Limits.Bodies counts
}

// openBody limits what is read of a request's body. Its caller calls done once it no longer needs what was read.
func (s *Server) openBody(rt route, w http.ResponseWriter, r *http.Request) (done func(), err error) {
	if r.ContentLength == 0 {
		return func() {}, nil
	}
	b := &body{server: s, control: http.NewResponseController(w), from: r.Body, most: s.Limits.BodyTime, http2: r.ProtoMajor > 1}
	if s.Tokens != nil && entryOf(r).token == "" {
		b.most = min(b.most, strangerTime)
	}
	b.patience = b.most
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && rt.streamed && media == streamType {
		b.stream, b.patience = true, s.Limits.StreamTime
	}
	if !b.stream && r.ContentLength > s.Limits.Body {
		return nil, &http.MaxBytesError{Limit: s.Limits.Body}
	}
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip":
		b.packed = true
		r.ContentLength = -1 // the unpacked length is not known
	default:
		return nil, &problemError{kind: wrongMedia, detail: "the body may be packed with gzip only", header: http.Header{"Accept-Encoding": {"gzip"}}}
	}
	r.Body = b
	return b.release, nil
}

// Read reads what the client has sent, unpacked.
func (b *body) Read(p []byte) (n int, err error) {
	switch {
	case !b.packed:
		n, err = b.receive(p)
	case b.gzip == nil:
		if b.gzip, err = gzip.NewReader(receiver{b}); err == nil {
			n, err = b.gzip.Read(p)
		}
	default:
		n, err = b.gzip.Read(p)
	}
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, new(flate.CorruptInputError)) {
		err = &problemError{kind: malformed, field: "body", detail: "is not packed with gzip, or damaged"}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream && bytes.IndexByte(p[:n], '\n') >= 0 {
		b.patience = b.server.Limits.StreamTime
	}
	if b.read += int64(n); b.read > b.server.Limits.Body && !b.stream { // of a stream, only the length of each line is limited, by its reader
		return 0, b.refused(&http.MaxBytesError{Limit: b.server.Limits.Body})
	}
	if more := b.read - uncounted - b.held; more > 0 {
		if !b.server.bodies.take(more, b.server.Limits.Bodies) {
			return 0, b.refused(busy("the bodies of other requests take up the memory for them"))
		}
		b.held += more
	}
	return n, err
}

// refused makes the http.Server wait only a short time for the rest of a refused body, which it reads before it
// answers.
func (b *body) refused(err error) error {
	_ = b.control.SetReadDeadline(time.Now().Add(refusalTime))
	return err
}

// receiver reads what the client sends, before it is unpacked.
type receiver struct{ *body }

func (r receiver) Read(p []byte) (int, error) { return r.receive(p) }

// receive reads what the client sends, and gives up on a client that sends too little. Only the time for
// which the server has waited counts.
func (b *body) receive(p []byte) (int, error) {
	begin := time.Now()
	if !b.await(begin) {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := b.from.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = errors.Is(err, io.EOF)
	b.patience -= time.Since(begin)
	if !b.stream {
		b.patience = earned(b.patience, n, b.most)
	}
	if b.http2 { // on HTTP/2 a deadline would end the body even while nobody reads it
		_ = b.control.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &problemError{kind: clientTimeout, detail: "the body came too slowly"}
	}
	return n, err
}

// await sets the deadline of a read. It returns false if nothing more may be read.
func (b *body) await(begin time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.cut {
		_ = b.control.SetReadDeadline(begin.Add(b.patience)) // an error is ignored: the connection has a deadline of its own
	}
	return !b.cut
}

// release gives back the memory of all that was read so far, as the reader no longer needs it.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server.bodies.give(b.held)
	b.read, b.held = 0, 0
}

// drop gives back the memory of the last n bytes that were read, as the reader does not keep them.
func (b *body) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read = max(0, b.read-int64(n)) // bytes read before a release are no longer counted
	if less := b.held - max(0, b.read-uncounted); less > 0 {
		b.server.bodies.give(less)
		b.held -= less
	}
}

// stop ends a read that is under way, and all later ones.
func (b *body) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut = true; !b.ended { // after the end of the body, a deadline would break the connection for its next request
		_ = b.control.SetReadDeadline(time.Now())
	}
}

// Close leaves the rest of the body to the http.Server.
func (b *body) Close() error { return b.from.Close() }

// releaseBody gives back the memory of what was read so far of a request's body.
func releaseBody(r *http.Request) {
	if b, ok := r.Body.(*body); ok {
		b.release()
	}
}

// dropBody gives back the memory of the last n bytes that were read of a request's body and are not kept.
func dropBody(r *http.Request, n int) {
	if b, ok := r.Body.(*body); ok {
		b.drop(n)
	}
}

// stopBody ends a read of a request's body that is under way, and all later ones.
func stopBody(r *http.Request) {
	if b, ok := r.Body.(*body); ok {
		b.stop()
	}
}
