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

	// The limits below hold only for an http.Server made by HTTPServer.

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
	slowest    = 16 << 10         // a client that sends or reads this many bytes a second never uses up the server's patience
	uncounted  = 64 << 10         // bytes of each body that Limits.Bodies does not count, and of each answer that Limits.Answers does not
	headerTime = 10 * time.Second // time for a request's header, and for the TLS handshake
	h2Streams  = 250              // most requests at once on one connection of HTTP/2

	strangerPart = 4                // requests without a token have this part of Limits.Requests, in addition to it
	strangerTime = 10 * time.Second // longest time that the server waits for a client without a token to send a body, or to read
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

// orDefault returns the limit that was given, or standard if it is 0. A negative limit means none: it becomes one so
// large that it is never reached, but small enough to be added to.
func orDefault[T int | int64 | time.Duration](given, standard T) T {
	if given < 0 {
		for given = 1; given<<2 > given; given <<= 1 { // up to a quarter of the largest value of the type
		}
		return given
	}
	return cmp.Or(given, standard)
}

// earned is how long the server goes on waiting for a client that has just sent or read n bytes.
func earned(patience time.Duration, n int, most time.Duration) time.Duration {
	return min(patience+time.Duration(n)*time.Second/slowest, most)
}

// gauge counts how much of a limited resource is in use.
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

// busy is the problem of a client that is refused because others use up a limit.
func busy(detail string) error {
	return &problemError{kind: tooMany, detail: detail, header: http.Header{"Retry-After": {retryAfter}}}
}

// seats counts requests in each of three ways: being served, waiting, streams. There is one for all requests, and one
// for each token.
type seats struct{ requests, waiting, streams gauge }

// seat takes a seat for a request among all, and one of those of its token, which may have half of all; own is
// nil if the token has no limit of its own.
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

// admit counts a request as being served, until e.served is called, which may be called more than once. If there are
// several tokens, one may have half of all seats. Requests without a token have separate seats: anybody can send any
// number of them, so they must not take those of others.
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

// nameOf is the name of a request's token, which is in its header or belongs to its session; empty: it has no valid
// token.
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

// waitSeat counts a request as waiting, no longer as being served. Handlers call it before they wait,
// and call done afterwards. They must have read what they need of the body.
func (s *Server) waitSeat(r *http.Request) (done func(), err error) {
	releaseBody(r)
	return s.move(r, func(of *seats) *gauge { return &of.waiting }, s.Limits.Waiting, "requests are waiting")
}

// streamSeat counts a request as a stream, no longer as being served.
func (s *Server) streamSeat(r *http.Request) (done func(), err error) {
	return s.move(r, func(of *seats) *gauge { return &of.streams }, s.Limits.Streams, "streams are open")
}

// move counts a request that is being served in another way.
func (s *Server) move(r *http.Request, sort func(*seats) *gauge, limit int, what string) (done func(), err error) {
	e := entryOf(r)
	if done, err = s.seatOf(e, sort, limit, what); err == nil {
		e.served()
	}
	return done, err
}

// seatOf takes a seat for a request, and one of its token's seats if the token has a limit of its own.
func (s *Server) seatOf(e *entry, sort func(*seats) *gauge, limit int, what string) (leave func(), err error) {
	var own *gauge
	if e.own != nil {
		own = sort(e.own)
	}
	return seat(sort(&s.seats), own, limit, what)
}

// overKey is the key under which a connection's context says whether there are too many connections.
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
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // mistakes of clients are logged as Debug: anyone could fill the log with them
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, overKey{}, open.Add(1) > limit)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			switch {
			case state == http.StateNew && open.Load() > limit+limit/10+10: // close at once: there are so many that answering each would be too much
				_ = c.Close()
			case state == http.StateClosed || state == http.StateHijacked:
				open.Add(-1)
			}
		},
	}
}
