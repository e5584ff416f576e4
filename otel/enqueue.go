package dibsotel

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/dibs-queue/dibs"
)

// enqueue is middleware for a store: one span for each call, whose context all its jobs carry.
func (t *telemetry) enqueue(next dibs.EnqueueFunc) dibs.EnqueueFunc {
	return func(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
		var queue string
		counts := map[string]int64{}
		var links []trace.Link
		for i := range jobs {
			queue = cmp.Or(jobs[i].Queue, dibs.DefaultQueue)
			counts[queue]++
			links = appendLink(links, creation(jobs[i].Metadata))
		}
		if len(counts) != 1 {
			queue = ""
		}
		attrs := operation("enqueue", semconv.MessagingOperationTypeSend, queue)
		begin := time.Now()
		ctx, span := t.tracer.Start(ctx, named("enqueue", queue), trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(begin),
			trace.WithAttributes(withCount(attrs, len(jobs))...), trace.WithLinks(links...))
		mark(ctx, jobs)
		done, err := next(ctx, jobs)
		if len(done) == 1 {
			span.SetAttributes(messageID(done[0].ID))
		}
		failure := t.called(ctx, span, attrs, begin, err)
		for queue, n := range counts {
			t.sent.Add(ctx, n, metric.WithAttributes(append(operation("enqueue", semconv.MessagingOperationTypeSend, queue), failure...)...))
		}
		return done, err
	}
}

// called ends the span of a call to the store, and records how long it took. It returns the
// attributes of its error: none if there is none.
func (t *telemetry) called(ctx context.Context, span trace.Span, attrs []attribute.KeyValue, begin time.Time, err error) (failure []attribute.KeyValue) {
	end := time.Now()
	if err != nil {
		failure = []attribute.KeyValue{errorType(err)}
		recordError(span, failure[0], err, "")
	}
	span.End(trace.WithTimestamp(end))
	t.calls.Record(ctx, end.Sub(begin).Seconds(), metric.WithAttributes(append(failure[:len(failure):len(failure)], attrs...)...))
	return failure
}

// operation are the attributes that spans and metrics of an operation share. queue is empty for
// one on several queues.
func operation(name string, opType attribute.KeyValue, queue string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.MessagingSystemKey.String("dibs"), semconv.MessagingOperationName(name), opType}
	if queue != "" {
		attrs = append(attrs, semconv.MessagingDestinationName(strings.ToValidUTF8(queue, "\uFFFD")))
	}
	return attrs[:len(attrs):len(attrs)]
}

// withCount adds how many jobs a batch has to the attributes of its span.
func withCount(attrs []attribute.KeyValue, n int) []attribute.KeyValue {
	if n == 1 {
		return attrs
	}
	return append(attrs, semconv.MessagingBatchMessageCount(n))
}

// named is the name of a span.
func named(operation, queue string) string {
	if queue == "" {
		return operation
	}
	return operation + " " + strings.ToValidUTF8(queue, "\uFFFD")
}

func messageID(id int64) attribute.KeyValue {
	return semconv.MessagingMessageID(strconv.FormatInt(id, 10))
}

func appendLink(links []trace.Link, to trace.SpanContext) []trace.Link {
	if !to.IsValid() {
		return links
	}
	return append(links, trace.Link{SpanContext: to})
}

// recordError says in a span that it failed; failure is its error.type. stack is empty but for
// a panic.
func recordError(span trace.Span, failure attribute.KeyValue, err error, stack string) {
	text := errorText(err)
	event := []attribute.KeyValue{semconv.ExceptionType(failure.Value.AsString()), semconv.ExceptionMessage(text)}
	if stack != "" {
		event = append(event, semconv.ExceptionStacktrace(stack))
	}
	span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(event...))
	span.SetAttributes(failure)
	span.SetStatus(codes.Error, text)
}
