package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// wire passes connections on to a server, and sees what the client sends.
type wire struct {
	server string
	mu     sync.Mutex
	sent   [][]byte // the commands that have a commit in them
	cut    bool     // cut a connection at its commit, before the server gets it
	late   bool     // cut it only when the server has answered
	refuse bool     // answer a commit with a deadlock, in place of the server
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
		switch cut, refuse := w.meets(body); {
		case refuse:
			text := append([]byte{0xff, 0xbd, 0x04}, "#40001Deadlock found when trying to get lock; try restarting transaction"...)
			if _, err := client.Write(append([]byte{byte(len(text)), 0, 0, head[3] + 1}, text...)); err != nil {
				return
			}
			continue
		case cut && !w.late:
			return
		case cut:
			answers <- struct{}{}
		}
		if _, err := server.Write(append(bytes.Clone(head), body...)); err != nil {
			return
		}
	}
}

// meets notes a commit, and reports what is to become of it.
func (w *wire) meets(body []byte) (cut, refuse bool) {
	if !bytes.Contains(bytes.ToLower(body), []byte("commit")) || bytes.Contains(bytes.ToLower(body), []byte("read-committed")) {
		return false, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, body[1:]) // the first byte says that it is a query
	return w.cut, w.refuse
}

// set says what becomes of commits from now on.
func (w *wire) set(cut, late, refuse bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut, w.late, w.refuse = cut, late, refuse
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

// enqueues are ways to enqueue a job in one transaction of the store's own.
var enqueues = map[string]func(ctx context.Context, s *mysql.Store) error{
	"Enqueue": func(ctx context.Context, s *mysql.Store) error {
		_, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
		return err
	},
	"InTx": func(ctx context.Context, s *mysql.Store) error {
		return s.InTx(ctx, func(tx dibs.Tx) error {
			_, err := tx.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
			return err
		})
	},
}

// waiting counts the jobs that wait in a database.
func waiting(t *testing.T, s *mysql.Store) (n int64) {
	t.Helper()
	list, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range list {
		n += q.Waiting
	}
	return n
}

// TestAnUnknownCommitSaysSo cuts the connection before the server gets the commit, and before the client gets the answer.
// The errors are the same, as nobody can tell.
func TestAnUnknownCommitSaysSo(t *testing.T) {
	t.Parallel()
	for name, enqueue := range enqueues {
		for _, late := range []bool{false, true} {
			direct := mytest.Address(t)
			w, address := through(t, direct)
			s := openStore(t, address)
			w.set(true, late, false)
			err := enqueue(t.Context(), s)
			w.set(false, false, false)
			if !errors.Is(err, dibs.ErrUnavailable) || !strings.Contains(err.Error(), "it is unknown whether the call took effect") {
				t.Errorf("%s, late %v: %v", name, late, err)
			}
			if n := waiting(t, openStore(t, direct)); late != (n == 1) {
				t.Errorf("%s, late %v: the database has %d jobs", name, late, n)
			}
		}
	}
}

// TestARefusedCommitSaysThatNothingTookEffect has each commit end with a deadlock. The transaction stays open on the server, as
// after an error that does not end it: what comes next on its connection must not commit it.
func TestARefusedCommitSaysThatNothingTookEffect(t *testing.T) {
	t.Parallel()
	for name, enqueue := range enqueues {
		direct := mytest.Address(t)
		w, address := through(t, direct)
		s := openStore(t, address)
		w.set(false, false, true)
		err := enqueue(t.Context(), s)
		w.set(false, false, false)
		if !errors.Is(err, dibs.ErrUnavailable) || !strings.Contains(err.Error(), "nothing took effect") || strings.Contains(err.Error(), "unknown") {
			t.Errorf("%s: %v", name, err)
		}
		if err := enqueue(t.Context(), s); err != nil {
			t.Errorf("%s: the next one: %v", name, err)
		}
		if n := waiting(t, openStore(t, direct)); n != 1 {
			t.Errorf("%s: the database has %d jobs", name, n)
		}
	}
}

// TestATransactionThatTheServerHasEndedIsNotCommitted has the callback of InTx keep the error to itself of a call in which the server
// has rolled the transaction back.
func TestATransactionThatTheServerHasEndedIsNotCommitted(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	err := s.InTxWith(t.Context(), func(tx dibs.Tx, own dibs.SQLTx) error {
		if _, err := tx.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
			return err
		}
		if _, err := own.ExecContext(t.Context(), "rollback"); err != nil { // as the server does after a deadlock
			return err
		}
		if _, err := tx.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("a call in a transaction that has ended: %v", err)
		}
		return nil
	})
	if !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("the transaction ended with %v", err)
	}
	if n := waiting(t, s); n != 0 {
		t.Errorf("the database has %d jobs", n)
	}
}
