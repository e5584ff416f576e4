package server

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Limits bound what clients can take of a server: memory, connections, and time. 0 is the default, and a
// negative number is no limit. A client that meets one gets a problem with the status 413 or 503, or loses
// its connection.
type Limits struct {
	// Body is the most bytes of one request's body, unpacked; default 32 MiB. A stream of jobs has
	// no limit in all.
	Body int64
	// Bodies is the most bytes that the bodies of all requests take at one moment; default 128 MiB. The
	// first 64 KiB of each are not counted, so that a few large ones hold up no small one.
	Bodies int64
	// Answers is the most bytes that answers with jobs, and lists, take at one moment; default 256 MiB. The first
	// 64 KiB of each are not counted. One answer may exceed it while there is no other.
	Answers int64
	// BodyTime is how long the server waits for a client whose body does not come, or comes more slowly
	// than 16 KiB a second; default 30 s.
	BodyTime time.Duration
	// StreamTime is how long the server waits for the next whole line of a stream; default 5 min.
	StreamTime time.Duration
	// Requests is how many requests are served at once, besides those that wait and streams; default 1,000. Where there
	// are several tokens, the requests of one can take half of it at most; so it is with Waiting and Streams. Where there
	// are tokens, a quarter as many requests without one are served besides, such as those that log in.
	Requests int
	// Waiting is how many requests wait at once, for jobs or for their end; default 10,000.
	Waiting int
	// Streams is how many streams of jobs are open at once; default 256.
	Streams int

	// Queues is how many queues there may be in the database for a request to make another; default 10,000.
	Queues int

	// The rest is for HTTPServer only.

	// Connections is how many are open at once; default 20,000.
	Connections int
	// Header is the most bytes of a request's header; default 32 KiB.
	Header int
	// Idle is how long a connection may rest between two requests; default 2 min.
	Idle time.Duration
	// AnswerTime is how long the server waits for a client that does not read its answer, or reads
	// more slowly than 16 KiB a second; default 1 min.
	AnswerTime time.Duration
}

const (
	slowest    = 16 << 10         // bytes a second at which the server's patience with a client stays the same
	uncounted  = 64 << 10         // bytes of each body that Limits.Bodies does not count, and of each answer that Limits.Answers does not
	headerTime = 10 * time.Second // for a request's header, and for the handshake of TLS
	h2Streams  = 250              // requests at once of one connection of HTTP/2

	strangerPart = 4                // a quarter of Limits.Requests is served besides to those without a token
	strangerTime = 10 * time.Second // how long the server waits at most for one of them to send a body, or to read
)

func (l Limits) withDefaults() Limits {
	return Limits{
		Body:        orDefault(l.Body, 32<<20),
		Bodies:      orDefault(l.Bodies, 128<<20),
		Answers:     orDefault(l.Answers, 256<<20),
		BodyTime:    orDefault(l.BodyTime, 30*time.Second),
		StreamTime:  orDefault(l.StreamTime, 5*time.Minute),
		Requests:    orDefault(l.Requests, 1000),
		Waiting:     orDefault(l.Waiting, 10_000),
		Streams:     orDefault(l.Streams, 256),
		Queues:      orDefault(l.Queues, 10_000),
		Connections: orDefault(l.Connections, 20_000),
		Header:      orDefault(l.Header, 32<<10),
		Idle:        orDefault(l.Idle, 2*time.Minute),
		AnswerTime:  orDefault(l.AnswerTime, time.Minute),
	}
}

// orDefault is a limit as it was given. In place of none it is one that nothing meets, and to which something may be added.
func orDefault[T int | int64 | time.Duration](given, standard T) T {
	if given < 0 {
		for given = 1; given<<2 > given; given <<= 1 { // up to a quarter of what the type holds
		}
		return given
	}
	return cmp.Or(given, standard)
}

// earned is what is left of the server's patience with a client that has sent or read n bytes.
func earned(patience time.Duration, n int, most time.Duration) time.Duration {
	return min(patience+time.Duration(n)*time.Second/slowest, most)
}

// gauge counts what is in use of something limited.
type gauge struct {
	used atomic.Int64
}

// take adds n, unless the limit would be exceeded.
func (g *gauge) take(n, limit int64) bool {
	if g.used.Add(n) > limit {
		g.used.Add(-n)
		return false
	}
	return true
}

func (g *gauge) give(n int64) { g.used.Add(-n) }

// busy is the problem of a client that has met a limit which others use up.
func busy(detail string) error {
	return &problemError{kind: tooMany, detail: detail, header: http.Header{"Retry-After": {retryAfter}}}
}

// seats count requests: all, or those of one token.
type seats struct{ requests, waiting, streams gauge }

// seat takes a seat among all, and one among those of the token, which may have half of them; own is nil if the
// request has no share.
func seat(all, own *gauge, limit int, what string) (leave func(), err error) {
	if !all.take(1, int64(limit)) {
		return nil, busy("too many " + what)
	}
	if own != nil && !own.take(1, int64(limit+1)/2) {
		all.give(1)
		return nil, busy("too many " + what + " with this token")
	}
	return sync.OnceFunc(func() {
		all.give(1)
		if own != nil {
			own.give(1)
		}
	}), nil
}

// admit counts a request among those that are served at once, until e.served is called, more than once perhaps. A token
// may have half of all where there are several. Requests without a token have seats of their own, since anybody can send
// any number of them: they take none from the others.
func (s *Server) admit(e *entry, r *http.Request) (err error) {
	if e.token = s.nameOf(r); s.Tokens != nil && e.token == "" {
		e.answer.hurry(strangerTime)
		e.served, err = seat(&s.strangers, nil, max(1, s.Limits.Requests/strangerPart), "requests without a token are being served")
		return err
	}
	if s.Tokens != nil && len(*s.Tokens.list.Load()) > 1 {
		own, there := s.shares.Load(e.token)
		if !there {
			own, _ = s.shares.LoadOrStore(e.token, &seats{})
		}
		e.own = own.(*seats)
	}
	e.served, err = s.seatOf(e, func(of *seats) *gauge { return &of.requests }, s.Limits.Requests, "requests are being served")
	return err
}

// nameOf is the name of a request's token, be it in the header or that of a session; empty: it has none that is known.
func (s *Server) nameOf(r *http.Request) string {
	if s.Tokens == nil {
		return ""
	}
	if token, err := bearer(r); err == nil {
		if g := s.Tokens.find(token); g != nil {
			return g.name
		}
	}
	return s.pages.Visitor(r)
}

// waitSeat counts a request among those that wait, in place of those that are served. Handlers call it
// before they wait, and done after it; what they need of the body they have read.
func (s *Server) waitSeat(r *http.Request) (done func(), err error) {
	releaseBody(r)
	return s.move(r, func(of *seats) *gauge { return &of.waiting }, s.Limits.Waiting, "requests are waiting")
}

// streamSeat counts a request among the streams, in place of those that are served.
func (s *Server) streamSeat(r *http.Request) (done func(), err error) {
	return s.move(r, func(of *seats) *gauge { return &of.streams }, s.Limits.Streams, "streams are open")
}

// move takes a seat of another sort for a request that is being served.
func (s *Server) move(r *http.Request, sort func(*seats) *gauge, limit int, what string) (done func(), err error) {
	e := entryOf(r)
	if done, err = s.seatOf(e, sort, limit, what); err == nil {
		e.served()
	}
	return done, err
}

// seatOf takes a seat of a sort for a request, and one of its token's share if it has one.
func (s *Server) seatOf(e *entry, sort func(*seats) *gauge, limit int, what string) (leave func(), err error) {
	var own *gauge
	if e.own != nil {
		own = sort(e.own)
	}
	return seat(sort(&s.seats), own, limit, what)
}

// overKey is the key, among the values of a connection's context, of whether there are too many connections.
type overKey struct{}

// HTTPServer returns an http.Server of this server that keeps all limits, also those that a handler alone
// cannot keep. Its address and TLSConfig are not set. Close this server before you shut down the other, so that
// calls which wait are answered.
func (s *Server) HTTPServer() *http.Server {
	var open atomic.Int64
	limit := int64(s.Limits.Connections)
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime,
		WriteTimeout:      s.Limits.AnswerTime,
		IdleTimeout:       s.Limits.Idle,
		MaxHeaderBytes:    s.Limits.Header,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: h2Streams},
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // what clients do wrong: anyone could fill the log
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, overKey{}, open.Add(1) > limit)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			switch {
			case state == http.StateNew && open.Load() > limit+limit/10+10: // so many that even refusing each is too much
				_ = c.Close()
			case state == http.StateClosed || state == http.StateHijacked:
				open.Add(-1)
			}
		},
	}
}
