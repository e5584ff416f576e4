package metrics_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/metrics"
	"github.com/dibs-queue/dibs/sqlite"
)

// A program with a worker shows its metrics and those of its database.
func ExampleRegister() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	send := func(context.Context, *dibs.Job[string]) error { return nil }
	mux := http.NewServeMux()

	worker := &dibs.Worker{Store: store, Queue: "mail"}
	dibs.Handle(worker, "welcome", send)
	if err := metrics.Register(prometheus.DefaultRegisterer, store, worker); err != nil {
		log.Fatal(err)
	}
	mux.Handle("GET /metrics", promhttp.Handler())

	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Queue: "mail", Kind: "welcome", Payload: "ann@example.com"}}); err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	answer, err := http.Get(server.URL + "/metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "dibs_enqueued_jobs_total") || strings.HasPrefix(line, "dibs_queue_jobs") && strings.Contains(line, "waiting") {
			fmt.Print(line)
		}
	}
	// Output:
	// dibs_enqueued_jobs_total{kind="welcome",queue="mail"} 1
	// dibs_queue_jobs{queue="mail",state="waiting"} 1
}
