package server_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/server"
)

// start serves a database with the limits of a server of its own, as dibs serve does, until the test ends. Then
// nothing may be held any more.
func start(t testing.TB, db admin.Database, o server.Options) (*server.Server, string) {
	t.Helper()
	s := server.New(db, o)
	web := s.HTTPServer()
	address := "http://" + run(t, s, web)
	return s, address
}

// run runs a web server until the test ends, and returns its address.
func run(t testing.TB, s *server.Server, web *http.Server) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if web.TLSConfig != nil {
		listener = tls.NewListener(listener, web.TLSConfig)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = web.Serve(listener) // returns when it is shut down
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		web.RegisterOnShutdown(func() { _ = s.Close() })
		if err := web.Shutdown(ctx); err != nil {
			t.Errorf("requests are still in progress: %v", err)
			_ = web.Close()
		}
		<-over
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if requests, waiting, bodies := s.InUse(); requests != 0 || waiting != 0 || bodies != 0 {
			t.Errorf("held after the last request: %d requests, %d that wait, %d bytes of bodies", requests, waiting, bodies)
		}
		if streams, answers := s.StreamsAndAnswers(); streams != 0 || answers != 0 || s.Shares() != 0 {
			t.Errorf("held after the last request: %d streams, %d bytes of answers, %d seats of tokens", streams, answers, s.Shares())
		}
	})
	return address
}

// onSQLite is a fresh database, for tests in which it does not matter.
func onSQLite(t testing.TB) admin.Database {
	t.Helper()
	return database(t, open.URL("sqlite:"+filepath.Join(t.TempDir(), "jobs.db")))
}

// onPostgres is a fresh database on the PostgreSQL server of the tests.
func onPostgres(t *testing.T) admin.Database {
	t.Helper()
	url := open.URL(pgtest.URL(t))
	if err := open.Migrate(t.Context(), url, open.Options{}); err != nil {
		t.Fatal(err)
	}
	return database(t, url)
}
