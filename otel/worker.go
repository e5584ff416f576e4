package dibsotel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// The attributes of spans and metrics that only dibs has.
const (
	kindKey     = attribute.Key("messaging.dibs.kind")
	attemptKey  = attribute.Key("messaging.dibs.attempt")
	outcomeKey  = attribute.Key("messaging.dibs.outcome")
	scheduleKey = attribute.Key("messaging.dibs.schedule")
	tickKey     = attribute.Key("messaging.dibs.tick")
)

// instrument puts spans around a worker's handlers and calls.
func (t *telemetry) instrument(w *dibs.Worker) {
	queue := cmp.Or(w.Queue, dibs.DefaultQueue)
	store := tracedStore{w.Store, t, queue}
	switch db := w.Store.(type) {
	case admin.Database:
		w.Store = tracedDatabase{db, store}
	case dibs.Database:
		w.Store = tracedService{store, db, db}
	default:
		w.Store = store
	}
	w.Use(t.attempt)
}

// attempt is middleware for a worker: a span for each attempt, under the one that enqueued its
// job, and with a link to it.
func (t *telemetry) attempt(next dibs.Handler) dibs.Handler {
	return func(ctx context.Context, job *dibs.RawJob) error {
		created := creation(job.Metadata)
		links := appendLink(nil, created)
		if created.IsValid() {
			links = appendLink(links, trace.SpanContextFromContext(ctx)) // what Run was called in
			ctx = trace.ContextWithRemoteSpanContext(ctx, created)
		}
		begin := time.Now()
		ctx, span := t.tracer.Start(ctx, named("process", job.Queue), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(begin),
			trace.WithAttributes(ofJob(job)...), trace.WithLinks(links...))
		e := ended{ctx: ctx, job: job, span: span, begin: begin, err: errGoexit}
		defer func() {
			p := recover()
			if p != nil {
				e.err, e.stack = fmt.Errorf("panic: %v", p), string(debug.Stack())
			}
			t.ended(e)
			if p != nil {
				panic(p) // the worker makes it the job's error
			}
		}()
		e.err = next(ctx, job)
		return e.err
	}
}

var errGoexit = errors.New("the handler ended its goroutine")

// ofJob are the attributes of an attempt's span.
func ofJob(job *dibs.RawJob) []attribute.KeyValue {
	attrs := append(operation("process", semconv.MessagingOperationTypeProcess, job.Queue),
		messageID(job.ID), kindKey.String(job.Kind), attemptKey.Int(job.Attempt))
	if job.Schedule != "" {
		attrs = append(attrs, scheduleKey.String(job.Schedule))
	}
	if !job.Tick.IsZero() {
		attrs = append(attrs, tickKey.String(job.Tick.Format(time.RFC3339Nano)))
	}
	return attrs
}

// ended is an attempt whose handler has ended.
type ended struct {
	ctx   context.Context
	job   *dibs.RawJob
	span  trace.Span
	begin time.Time
	err   error
	stack string // of a panic
}

// ended ends the span of an attempt, and records how long it took and its outcome.
func (t *telemetry) ended(e ended) {
	end := time.Now()
	outcome, failure := outcomeOf(e)
	attrs := append(operation("process", semconv.MessagingOperationTypeProcess, e.job.Queue), kindKey.String(e.job.Kind), outcome)
	if failure.Valid() {
		attrs = append(attrs, failure)
		recordError(e.span, failure, e.err, e.stack)
	}
	e.span.SetAttributes(outcome)
	e.span.End(trace.WithTimestamp(end))
	t.attempts.Record(e.ctx, end.Sub(e.begin).Seconds(), metric.WithAttributes(attrs...))
}

// outcomeOf is the attribute of an attempt's outcome, and that of its error if it failed.
func outcomeOf(e ended) (outcome, failure attribute.KeyValue) {
	o := dibs.OutcomeOf(e.ctx, e.err)
	switch {
	case o.Ending == "": // ErrFinished
		return outcomeKey.String("finished"), failure
	case o.Ending != dibs.EndRetry && o.Ending != dibs.EndDead:
		return outcomeKey.String(string(o.Ending)), failure
	}
	if e.job.After(o) == dibs.Dead {
		o.Ending = dibs.EndDead
	}
	failure = errorType(e.err)
	switch {
	case e.stack != "":
		failure = semconv.ErrorTypeKey.String("panic")
	case errors.Is(context.Cause(e.ctx), dibs.ErrJobTimeout):
		failure = errorType(dibs.ErrJobTimeout)
	}
	return outcomeKey.String(string(o.Ending)), failure
}
