package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
)

// A server on a standby is not ready, as workers and enqueuers cannot use it; what only reads goes on.
func TestAServerOnAReadOnlyDatabaseIsNotReady(t *testing.T) {
	t.Parallel()
	address := pgtest.Filled(t, "migrated", func(url string) error {
		return open.Migrate(context.Background(), open.URL(url), open.Options{})
	})
	const why = "the PostgreSQL server is read-only: it is a standby, or default_transaction_read_only is on"
	url := serve(t, database(t, open.URL(address+"&default_transaction_read_only=on")))
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/healthz", "", http.StatusOK},
		{"GET", "/v1/jobs", "", http.StatusOK},
		{"GET", "/v1/stats", "", http.StatusOK},
		{"GET", "/readyz", "", http.StatusServiceUnavailable},
		{"POST", "/v1/jobs", `{"queue":"q"}`, http.StatusServiceUnavailable},
		{"PATCH", "/v1/queues/q?create=true", `{"paused":true}`, http.StatusServiceUnavailable},
	} {
		status, _, body := call(t, c.method, url+c.path, c.body)
		if status != c.status || status != http.StatusOK && !strings.Contains(string(body), why+"; nothing was written, and calls that only read go on") {
			t.Errorf("%s %s: status %d, want %d: %s", c.method, c.path, status, c.status, body)
		}
	}
	if status, _, body := call(t, "GET", serve(t, database(t, open.URL(address)))+"/readyz", ""); status != http.StatusOK {
		t.Errorf("on a database that can be written: status %d: %s", status, body)
	}
}
