// Command service is a worker as a service: it logs JSON, counts what happens, answers probes,
// and stops well when it is told to. docs/howto/deploying.md and docs/howto/monitoring.md explain it.
//
//	DIBS_DB=postgres://localhost/mydb go run ./examples/service
package main

import (
	"context"
	"expvar"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	go func() { slog.Error("counters", "error", http.ListenAndServe("localhost:8080", nil)) }() // /debug/vars, /healthz, /readyz
	url := os.Getenv("DIBS_DB")
	if url == "" {
		slog.Error("DIBS_DB is not set: it is the URL of the database")
		os.Exit(2)
	}
	if err := run(url); err != nil {
		slog.Error("the worker ended", "error", err)
		os.Exit(1)
	}
}

func run(url string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	worker := &dibs.Worker{
		Store:        store,
		Queue:        "emails",
		Concurrency:  20,
		JobTimeout:   5 * time.Minute,
		ShutdownWait: 20 * time.Second, // all ends 5 s after that: give the process 30
		Hooks:        counters(),
	}
	dibs.Handle(worker, "welcome", func(ctx context.Context, job *dibs.Job[string]) error {
		return nil // send it
	})
	http.HandleFunc("/healthz", probe(worker.Live))
	http.HandleFunc("/readyz", probe(worker.Ready))
	context.AfterFunc(ctx, func() {
		again, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(again, worker.StopNow)
	})
	return worker.Run(ctx) // nil after SIGTERM
}

// probe answers 200 while check finds nothing wrong.
func probe(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

func counters() dibs.Hooks {
	endings, seconds := expvar.NewMap("dibs_attempts"), expvar.NewFloat("dibs_handler_seconds")
	lost, failed := expvar.NewInt("dibs_leases_lost"), expvar.NewMap("dibs_store_errors")
	return dibs.Hooks{
		Finished: func(a dibs.Attempt) {
			ending := string(a.Outcome.Ending)
			switch {
			case a.NotWritten != nil: // refused, or the database was away
				ending = "not_written"
			case ending == "": // the handler finished it in a transaction: ErrFinished
				ending = "finished"
			}
			endings.Add(ending, 1)
			seconds.Add(a.Ran.Seconds())
		},
		LeaseLost: func(*dibs.RawJob, error) { lost.Add(1) },
		Error:     func(call string, _ error) { failed.Add(call, 1) },
	}
}
