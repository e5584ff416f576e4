package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// wire passes connections on to a server, and sees what the client sends.
type wire struct {
	server string
	mu     sync.Mutex
	sent   [][]byte // the commands that have a commit in them
	cut    bool     // cut a connection at its commit, before the server gets it
	late   bool     // cut it only when the server has answered
}

// through returns the address of a database by way of a wire.
func through(t *testing.T, address string) (*wire, string) {
	t.Helper()
	config, err := driver.ParseDSN(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w := &wire{server: config.Addr}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(c)
		}
	}()
	config.Addr = l.Addr().String()
	return w, config.FormatDSN()
}

// carry passes on packets, which begin with their length in three bytes and a number, until an end closes the connection.
func (w *wire) carry(client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", w.server)
	if err != nil {
		return
	}
	defer server.Close()
	answers := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		part := make([]byte, 1<<16)
		for {
			n, err := server.Read(part)
			if err != nil {
				client.Close()
				return
			}
			select {
			case <-answers: // the answer to the commit is lost
				client.Close()
				return
			default:
			}
			if _, err := client.Write(part[:n]); err != nil {
				return
			}
		}
	}()
	defer func() { server.Close(); <-ended }()
	head := make([]byte, 4)
	for {
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		if w.cuts(body) {
			if !w.late {
				return
			}
			answers <- struct{}{}
		}
		if _, err := server.Write(append(bytes.Clone(head), body...)); err != nil {
			return
		}
	}
}

// cuts notes a commit, and reports whether the connection is to be cut at it.
func (w *wire) cuts(body []byte) bool {
	if !bytes.Contains(bytes.ToLower(body), []byte("commit")) || bytes.Contains(bytes.ToLower(body), []byte("read-committed")) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, body[1:]) // the first byte says that it is a query
	return w.cut
}

// TestACommitIsAlone reads what the store sends: with anything else in the packet, a lost connection would not say whether
// the commit was tried.
func TestACommitIsAlone(t *testing.T) {
	t.Parallel()
	w, address := through(t, mytest.Address(t))
	s := openStore(t, address)
	w.mu.Lock()
	w.sent = nil // the migrations have the word, too
	w.mu.Unlock()
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.InTx(t.Context(), func(tx dibs.Tx) error {
		_, err := tx.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sent) < 2 {
		t.Fatalf("the store has sent the commits %q", w.sent)
	}
	for _, sent := range w.sent {
		if string(bytes.ToLower(sent)) != "commit" {
			t.Errorf("a commit was sent as %q", sent)
		}
	}
}

// TestAnUnknownCommitSaysSo cuts the connection before the server gets the commit, and before the client gets the answer.
// The errors are the same, as nobody can tell.
func TestAnUnknownCommitSaysSo(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		direct := mytest.Address(t)
		w, address := through(t, direct)
		s := openStore(t, address)
		w.mu.Lock()
		w.cut, w.late = true, late
		w.mu.Unlock()
		_, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
		w.mu.Lock()
		w.cut = false
		w.mu.Unlock()
		if !errors.Is(err, dibs.ErrUnavailable) || !bytes.Contains([]byte(err.Error()), []byte("it is unknown whether the call took effect")) {
			t.Errorf("late %v: %v", late, err)
		}
		page, err := openStore(t, direct).Stats(t.Context())
		if err != nil || late != (len(page) == 1 && page[0].Waiting == 1) {
			t.Errorf("late %v: the database has %+v, %v", late, page, err)
		}
	}
}
