package dibsotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// tracedStore is a worker's store with spans around its claims and finishes.
type tracedStore struct {
	dibs.Store
	t     *telemetry
	queue string
}

// tracedDatabase is a tracedStore that can do all that the worker's store can, as package
// dibstest needs it.
type tracedDatabase struct {
	admin.Database
	traced tracedStore
}

// tracedService is a tracedStore that has what handlers use of a dibs.Database, too.
type tracedService struct {
	tracedStore
	dibs.StepStore
	dibs.BeforeStore
}

func (s tracedDatabase) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	return s.traced.Claim(ctx, r)
}

func (s tracedDatabase) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	return s.traced.Resume(ctx, r)
}

func (s tracedDatabase) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return s.traced.Finish(ctx, outcomes)
}

func (s tracedStore) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	begin := time.Now()
	jobs, err := s.Store.Claim(ctx, r)
	s.claimed(ctx, "claim", begin, jobs, err)
	return jobs, err
}

func (s tracedStore) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	begin := time.Now()
	jobs, err := s.Store.Resume(ctx, r)
	s.claimed(ctx, "resume", begin, jobs, err)
	return jobs, err
}

// claimed makes the span of a claim. A claim that finds nothing has none: idle workers claim
// all the time.
func (s tracedStore) claimed(ctx context.Context, name string, begin time.Time, jobs []*dibs.RawJob, err error) {
	attrs := operation(name, semconv.MessagingOperationTypeReceive, s.queue)
	span := trace.SpanFromContext(context.Background()) // one that records nothing
	if len(jobs) > 0 || err != nil {
		var links []trace.Link
		for _, job := range jobs {
			links = appendLink(links, creation(job.Metadata))
		}
		ctx, span = s.start(ctx, name, begin, withCount(attrs, len(jobs)), links)
		if len(jobs) == 1 {
			span.SetAttributes(messageID(jobs[0].ID))
		}
	}
	s.t.called(ctx, span, attrs, begin, err)
	s.t.consumed.Add(ctx, int64(len(jobs)), metric.WithAttributes(attrs...))
	for _, job := range jobs {
		if !job.RunAt.IsZero() && !job.ClaimedAt.IsZero() {
			s.t.waits.Record(ctx, job.ClaimedAt.Sub(job.RunAt).Seconds(), metric.WithAttributes(append(attrs, kindKey.String(job.Kind))...))
		}
	}
}

func (s tracedStore) start(ctx context.Context, name string, begin time.Time, attrs []attribute.KeyValue, links []trace.Link) (context.Context, trace.Span) {
	return s.t.tracer.Start(ctx, named(name, s.queue), trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(begin),
		trace.WithAttributes(attrs...), trace.WithLinks(links...))
}

func (s tracedStore) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	attrs := operation("finish", semconv.MessagingOperationTypeSettle, s.queue)
	begin := time.Now()
	ctx, span := s.start(ctx, "finish", begin, withCount(attrs, len(outcomes)), nil)
	if len(outcomes) == 1 {
		span.SetAttributes(messageID(outcomes[0].ID))
	}
	err := s.Store.Finish(ctx, outcomes)
	s.t.called(ctx, span, attrs, begin, err)
	return err
}
