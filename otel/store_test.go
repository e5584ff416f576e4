package dibsotel_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/dibstest"
	dibsotel "github.com/dibs-queue/dibs/otel"
)

// flaky is a store that only works jobs, as that of an adopted table; its first Finish fails.
type flaky struct {
	dibs.Store
	finishes *atomic.Int64
}

func (f flaky) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if f.finishes.Add(1) == 1 {
		return fmt.Errorf("finish: %w", dibs.ErrUnavailable)
	}
	return f.Store.Finish(ctx, outcomes)
}

// A worker of a store that cannot enqueue has spans too, of calls that failed as well; it is
// run within a span of its own.
func TestAWorkerOfAnyStoreIsTraced(t *testing.T) {
	t.Parallel()
	store := dibstest.Store(t)
	b := &bench{T: t, store: store, spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(b.spans))
	jobs := []dibs.NewJob{
		{Queue: "mail", Kind: "a"},
		{Queue: "mail", Kind: "a", Metadata: []byte(`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`)},
	}
	if _, err := store.Enqueue(t.Context(), jobs[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Claim(t.Context(), dibs.ClaimRequest{Queue: "mail", Worker: "w", N: 1}); err != nil {
		t.Fatal(err) // the worker resumes it
	}
	if _, err := store.Enqueue(t.Context(), jobs[1:]); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	finished := 0
	b.w = &dibs.Worker{Store: flaky{store, new(atomic.Int64)}, Queue: "mail", Name: "w", Resume: true, Concurrency: 1, Hooks: dibs.Hooks{
		Log: slog.New(slog.DiscardHandler),
		Finished: func(dibs.Attempt) {
			if finished++; finished == 2 {
				stop()
			}
		},
	}}
	b.w.HandleRaw("a", quick)
	o := dibsotel.Options{TracerProvider: provider, MeterProvider: metric.NewMeterProvider(metric.WithReader(b.reader))}
	if err := dibsotel.Instrument(o, nil, b.w); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.w.Store.(admin.Database); ok {
		t.Error("its store seems to enqueue")
	}
	ctx, service := provider.Tracer("test").Start(ctx, "service")
	if err := b.w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	service.End()
	b.one("resume mail")
	b.one("claim mail") // those that found nothing have no span
	b.wantFlakySpans(service.SpanContext().SpanID())
	found := b.metrics()
	const series = "messaging.destination.name=mail,messaging.operation.name=%s,messaging.operation.type=%s,messaging.system=dibs"
	if n := found["messaging.client.operation.duration error.type=unavailable,"+fmt.Sprintf(series, "finish", "settle")]; n != 1 {
		t.Errorf("%d finishes that failed were measured, among %v", n, found)
	}
	if n := found["messaging.client.consumed.messages "+fmt.Sprintf(series, "claim", "receive")]; n != 1 {
		t.Errorf("%d jobs were claimed, among %v", n, found)
	}
}

// wantFlakySpans expects a failed finish, and attempts within the span run: the one that nobody
// has enqueued within a trace is under it.
func (b *bench) wantFlakySpans(run trace.SpanID) {
	b.Helper()
	var failed, attempts int
	for _, s := range b.spans.GetSpans() {
		switch {
		case s.Name == "finish mail" && s.Status.Code == codes.Error:
			failed++
			if got := text(s.Attributes); !strings.Contains(got, "error.type=unavailable") || len(s.Events) != 1 {
				b.Errorf("the failed finish has %s and %v", got, s.Events)
			}
		case s.Name == "process mail" && len(s.Links) == 0: // nobody traced its enqueueing
			attempts++
			if s.Parent.SpanID() != run {
				b.Errorf("an attempt is under %v", s.Parent)
			}
		case s.Name == "process mail":
			attempts++
			if len(s.Links) != 2 || s.Links[1].SpanContext.SpanID() != run || s.Parent.SpanID() != (trace.SpanID{0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31}) {
				b.Errorf("an attempt is under %v, with the links %v", s.Parent, s.Links)
			}
		}
	}
	if failed != 1 || attempts != 2 {
		b.Errorf("there are %d spans of finishes that failed and %d of attempts", failed, attempts)
	}
}
