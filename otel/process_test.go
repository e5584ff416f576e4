package dibsotel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dibs-queue/dibs"
	dibsotel "github.com/dibs-queue/dibs/otel"
	"github.com/dibs-queue/dibs/sqlite"
)

// fileToWork names, in a process of its own, the file whose one job it works.
const fileToWork = "DIBS_OTEL_TEST_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(fileToWork); path != "" {
		if err := workOne(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// workOne works a job, by OpenTelemetry's default providers, and prints what its span is under.
func workOne(path string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	spans := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	w := &dibs.Worker{Store: store, Queue: "mail", Hooks: dibs.Hooks{Finished: func(dibs.Attempt) { stop() }}}
	w.HandleRaw("a", quick)
	if err := errors.Join(dibsotel.Instrument(dibsotel.Options{}, store, w), w.Run(ctx)); err != nil {
		return err
	}
	for _, s := range spans.GetSpans() {
		if s.Name == "process mail" {
			fmt.Print(s.SpanContext.TraceID(), " ", s.Parent.SpanID())
		}
	}
	return nil
}

func TestATraceGoesFromOneProcessToAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	if err := dibsotel.Instrument(dibsotel.Options{TracerProvider: provider}, store); err != nil {
		t.Fatal(err)
	}
	ctx, request := provider.Tracer("test").Start(t.Context(), "request", trace.WithSpanKind(trace.SpanKindServer))
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Queue: "mail", Kind: "a"}}); err != nil {
		t.Fatal(err)
	}
	request.End()
	worker := exec.CommandContext(t.Context(), os.Args[0])
	worker.Env = append(os.Environ(), fileToWork+"="+path)
	worker.Stderr = os.Stderr
	out, err := worker.Output()
	if err != nil {
		t.Fatal(err)
	}
	enqueue := spans.GetSpans()[0]
	want := fmt.Sprint(request.SpanContext().TraceID(), " ", enqueue.SpanContext.SpanID())
	if enqueue.Name != "enqueue mail" || string(out) != want {
		t.Errorf("the other process' attempt has the trace and parent %s, want %s", out, want)
	}
}
