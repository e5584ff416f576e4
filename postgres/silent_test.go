package postgres

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// wires is a proxy before a server. Its connections can fall silent: nothing comes through, and none is closed.
type wires struct {
	net.Listener
	server string
	mu     sync.Mutex
	silent chan struct{} // closed when the connections that are open fall silent
	conns  []net.Conn
}

// newWires makes a database with dibs' tables, and a proxy before it. It returns their addresses.
func newWires(t *testing.T) (w *wires, address, through string) {
	t.Helper()
	address = pgtest.URL(t)
	if err := Migrate(t.Context(), address, Options{}); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	w = &wires{Listener: l, server: u.Host, silent: make(chan struct{})}
	go w.serve()
	u.Host = l.Addr().String()
	return w, address, u.String()
}

func (w *wires) serve() {
	for {
		client, err := w.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.server)
		if err != nil {
			_ = client.Close()
			return
		}
		w.mu.Lock()
		silent := w.silent
		w.conns = append(w.conns, client, server)
		w.mu.Unlock()
		for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
			go carry(way[0], way[1], silent)
		}
	}
}

// carry passes on what comes, until the wire falls silent; then it only reads.
func carry(to, from net.Conn, silent chan struct{}) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-silent:
			_, _ = io.Copy(io.Discard, from) // until the other side closes the connection
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// fallSilent silences all connections that are open.
func (w *wires) fallSilent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.silent)
	w.silent = make(chan struct{})
}

// cut ends all connections, since a program that closes a silent one waits for up to 15 s.
func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
}

// A listener whose wire falls silent finds that out, and listens over a new one.
func TestAListenerWhoseWireFallsSilentListensAgain(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	w, address, through := newWires(t)
	s, other := opened(t, through), opened(t, address)
	(*Store)(nil).SetLog(nil) // must not panic
	(&Store{}).SetLog(nil)
	s.bell.signOfLife = 100 * time.Millisecond
	said := make(chan string, 100)
	s.SetLog(slog.New(slog.NewTextHandler(lines(said), nil)))
	wake, stop := s.Wakeups(dibs.DefaultQueue)
	defer stop()
	heard := func() {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			if _, err := other.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-wake:
				return
			case <-time.After(50 * time.Millisecond):
				if time.Now().After(end) {
					t.Fatal("nothing is heard")
				}
			}
		}
	}
	heard()
	time.Sleep(300 * time.Millisecond) // the listener asks for signs of life, and gets them
	heard()
	w.fallSilent()
	for range 3 { // the first wake-up may come from the new connection
		heard()
	}
	_ = s.Close() // after this, the store logs nothing more
	close(said)
	n := 0
	for line := range said { // if the server answers slowly, the connection counts as silent more than once
		if want := []string{"level=WARN msg=\"the connection that listens", "level=INFO msg=\"listening for wake-ups again"}[n%2]; !strings.Contains(line, want) {
			t.Errorf("the log says %q, want %q", line, want)
		}
		n++
	}
	if n < 2 {
		t.Errorf("the log has %d lines", n)
	}
}

// lines sends each line of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A worker whose wires fall silent, and whose server can be reached by new ones, keeps the lease of its job: the extension that
// gets no answer ends early enough for another.
func TestAJobKeepsItsLeaseWhenAllWiresFallSilent(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	t.Parallel()
	w, address, through := newWires(t)
	s, other := opened(t, through), opened(t, address)
	const lease = 9 * time.Second
	started, ended := make(chan int64), make(chan error, 1)
	worker := &dibs.Worker{Store: s, Lease: lease}
	release := make(chan struct{})
	dibs.Handle(worker, "k", func(ctx context.Context, job *dibs.Job[any]) error {
		started <- job.ID
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- worker.Run(ctx) }()
	if _, err := other.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	id := <-started
	w.fallSilent()
	claimed, err := other.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for extended := false; !extended; time.Sleep(50 * time.Millisecond) {
		j, err := other.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(claimed.ClaimedAt) > 2*lease {
			t.Fatal("the lease is not extended")
		}
		extended = j.LeaseUntil.After(claimed.LeaseUntil)
	}
	close(release)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if j, err := other.Get(t.Context(), id); err != nil || j.State != dibs.Completed || j.Attempt != 1 {
		t.Errorf("the job is %+v, %v", j, err)
	}
	w.cut()
}

// Once a call has got no answer, the next goes over a new connection, however many silent ones the pool has.
func TestOneCallFindsThatAllWiresAreSilent(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	w, _, through := newWires(t)
	s := opened(t, through)
	var idle []*pgxpool.Conn
	for range min(4, int(s.pool.Config().MaxConns)) {
		c, err := s.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	for _, c := range idle {
		c.Release()
	}
	w.fallSilent()
	call := func(wait time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, err := s.Stats(ctx)
		return err
	}
	if err := call(time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("over a silent wire: %v", err)
	}
	if err := call(time.Minute); err != nil {
		t.Errorf("the next call: %v", err)
	}
	w.cut()
}
