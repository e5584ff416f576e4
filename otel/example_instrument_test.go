package dibsotel_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dibs-queue/dibs"
	dibsotel "github.com/dibs-queue/dibs/otel"
	"github.com/dibs-queue/dibs/sqlite"
)

// A handler's spans are under that of its attempt, which is under the one that enqueued the job.
func ExampleInstrument() {
	spans := tracetest.NewInMemoryExporter() // a service has an exporter for its collector
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "dibs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	handle := func(ctx context.Context, job *dibs.Job[string]) error {
		defer stop()
		_, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("mail").Start(ctx, "smtp")
		defer span.End()
		return nil // send it
	}

	otel.SetTracerProvider(provider) // as your service does already; see also otel.SetMeterProvider

	worker := &dibs.Worker{Store: store, Queue: "mail"}
	dibs.Handle(worker, "welcome", handle)
	if err := dibsotel.Instrument(dibsotel.Options{}, store, worker); err != nil {
		log.Fatal(err)
	}

	worker.Hooks.Log = slog.New(slog.DiscardHandler)
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Queue: "mail", Kind: "welcome", Payload: "Ann"}}); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Unordered output:
	// enqueue mail
	// claim mail
	// smtp
	// process mail
	// finish mail
}
