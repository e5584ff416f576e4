// Package dibsotel makes traces and metrics of a dibs queue with OpenTelemetry: spans of
// enqueueing, claiming, attempts and finishing, that belong together over processes, and the
// metrics of OpenTelemetry's conventions for messaging. docs/howto/telemetry.md shows it.
//
// It is a module of its own, so that programs without it do not get its dependencies.
package dibsotel

import (
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/dibs-queue/dibs"
)

// Options say where spans and metrics go. The zero value is the default.
type Options struct {
	TracerProvider trace.TracerProvider // default: otel.GetTracerProvider()
	MeterProvider  metric.MeterProvider // default: otel.GetMeterProvider()
}

// Enqueues is a store whose Enqueue takes middleware: a *postgres.Store or a *sqlite.Store.
type Enqueues interface {
	Use(f func(next dibs.EnqueueFunc) dibs.EnqueueFunc)
}

// Instrument puts spans and metrics around all that a store enqueues, also in transactions,
// and around all that the workers do. Call it once, before the store enqueues and after the
// Store of each worker is set: a worker's Store becomes one that makes spans of its calls.
// store is nil for a program that only works jobs, or works on an adopted table; one that only
// enqueues gives no workers.
//
// A job carries the trace context of its enqueueing in its metadata, as the members
// "traceparent" and "tracestate" (W3C Trace Context). Metadata that has a traceparent already
// keeps it. A job gets none if its metadata would grow beyond dibs.MaxMetadata.
func Instrument(o Options, store Enqueues, workers ...*dibs.Worker) error {
	t, err := newTelemetry(o)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w == nil || w.Store == nil {
			return &dibs.InvalidError{Field: "workers", Reason: "have one that is nil or has no Store; set that first"}
		}
	}
	if store != nil {
		store.Use(t.enqueue)
	}
	for _, w := range workers {
		t.instrument(w)
	}
	return nil
}

const scope = "github.com/dibs-queue/dibs/otel"

// telemetry is what the spans and metrics of one Instrument are made with.
type telemetry struct {
	tracer   trace.Tracer
	sent     metric.Int64Counter
	consumed metric.Int64Counter
	calls    metric.Float64Histogram
	attempts metric.Float64Histogram
	waits    metric.Float64Histogram
}

// The bounds of durations, in seconds: those of the conventions, and of waits that are longer.
var (
	durations = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
	waits     = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600)
)

func newTelemetry(o Options) (*telemetry, error) {
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	t := &telemetry{tracer: o.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))}
	m := o.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	var errs [5]error
	counted, seconds := metric.WithUnit("{message}"), metric.WithUnit("s")
	t.sent, errs[0] = m.Int64Counter(messagingconv.ClientSentMessages{}.Name(), counted, metric.WithDescription("Jobs that the program has tried to enqueue."))
	t.consumed, errs[1] = m.Int64Counter(messagingconv.ClientConsumedMessages{}.Name(), counted, metric.WithDescription("Jobs that the workers have claimed."))
	t.calls, errs[2] = m.Float64Histogram(messagingconv.ClientOperationDuration{}.Name(), seconds, durations, metric.WithDescription("Duration of the calls that enqueue, claim and finish jobs."))
	t.attempts, errs[3] = m.Float64Histogram(messagingconv.ProcessDuration{}.Name(), seconds, durations, metric.WithDescription("How long the handlers of jobs ran."))
	t.waits, errs[4] = m.Float64Histogram("messaging.dibs.wait.duration", seconds, waits, metric.WithDescription("Time from the start that a job was planned for to its claim."))
	return t, errors.Join(errs[:]...)
}
