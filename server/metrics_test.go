package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/metrics"
	"github.com/dibs-queue/dibs/server"
)

func TestMetricsOfTheServersCalls(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		r := prometheus.NewRegistry()
		seen, err := metrics.Observe(r, db)
		if err != nil {
			t.Fatal(err)
		}
		_, url := start(t, seen, server.Options{Metrics: promhttp.HandlerFor(r, promhttp.HandlerOpts{})})
		for _, body := range []string{`{"queue":"mail","kind":"k"}`, `{"queue":"mail","kind":"k","unique_key":"u"}`, `{"queue":"mail","kind":"k","unique_key":"u"}`} {
			if status, _, text := call(t, "POST", url+"/v1/jobs", body); status >= 300 {
				t.Fatalf("%d %s", status, text)
			}
		}
		if status, _, text := call(t, "POST", url+"/v1/claim", `{"queue":"mail","worker":"w"}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		status, header, text := call(t, "GET", url+"/metrics", "")
		if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
			t.Fatalf("%d %s %s", status, header, text)
		}
		for _, want := range []string{
			"dibs_up 1", `dibs_enqueued_jobs_total{kind="k",queue="mail"} 2`, `dibs_queue_jobs{queue="mail",state="waiting"} 1`,
			`dibs_queue_jobs{queue="mail",state="running"} 1`, `dibs_store_call_seconds_count{call="claim"} 1`, `dibs_store_call_seconds_count{call="enqueue"} 3`,
		} {
			if !strings.Contains(string(text), "\n"+want+"\n") {
				t.Errorf("there is no line %s in:\n%s", want, text)
			}
		}
	})
}

func TestAServerWithoutMetricsHasNoSuchPage(t *testing.T) {
	t.Parallel()
	_, url := start(t, nil, server.Options{})
	if status, _, text := call(t, "GET", url+"/metrics", ""); status != http.StatusNotFound || !strings.Contains(string(text), "no metrics") {
		t.Errorf("%d %s", status, text)
	}
}

// sweepless is a database that cannot do what is due by the clock.
type sweepless struct {
	admin.Database
	broken atomic.Bool
}

func (s *sweepless) Sweep(ctx context.Context) (dibs.Swept, error) {
	if s.broken.Load() {
		return dibs.Swept{}, dibs.ErrUnavailable
	}
	return s.Database.Sweep(ctx)
}

// becomes waits until /readyz answers with a status and words.
func becomes(t *testing.T, url string, status int, words string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		got, _, text := call(t, "GET", url+"/readyz", "")
		if got == status && strings.Contains(string(text), words) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("/readyz stays %d %s, want %d %s", got, text, status, words)
		}
	}
}

// A server sweeps from its start, whether or not anybody has claimed.
func TestAServerThatCannotSweepIsNotReady(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s := &sweepless{Database: db}
		api, url := start(t, s, server.Options{})
		becomes(t, url, http.StatusOK, "ok")
		s.broken.Store(true)
		api.HasNotSweptFor(20 * time.Second)
		becomes(t, url, http.StatusServiceUnavailable, "due by the clock")
		s.broken.Store(false)
		becomes(t, url, http.StatusOK, "ok")
	})
}

func TestAServerWhoseTablesAreGoneIsNotReady(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	postgres := pgtest.URL(t)
	url := open.URL(postgres)
	if err := open.Migrate(t.Context(), url, open.Options{}); err != nil {
		t.Fatal(err)
	}
	db, err := open.Database(t.Context(), url, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	_, address := start(t, db, server.Options{})
	becomes(t, address, http.StatusOK, "ok")
	conn, err := pgx.Connect(t.Context(), postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "drop schema dibs cascade"); err != nil {
		t.Fatal(err)
	}
	becomes(t, address, http.StatusServiceUnavailable, "dibs migrate")
}
