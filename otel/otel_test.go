package dibsotel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/dibstest"
	dibsotel "github.com/dibs-queue/dibs/otel"
	"github.com/dibs-queue/dibs/sqlite"
)

// bench is a queue with a worker, whose spans and metrics the test reads.
type bench struct {
	*testing.T
	store  *sqlite.Store
	w      *dibs.Worker
	spans  *tracetest.InMemoryExporter
	traces *sdktrace.TracerProvider
	reader *metric.ManualReader
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, store: dibstest.Store(t), spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	b.traces = sdktrace.NewTracerProvider(sdktrace.WithSyncer(b.spans))
	b.w = &dibs.Worker{Store: b.store, Queue: "mail", Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	o := dibsotel.Options{TracerProvider: b.traces, MeterProvider: metric.NewMeterProvider(metric.WithReader(b.reader))}
	if err := dibsotel.Instrument(o, b.store, b.w); err != nil {
		t.Fatal(err)
	}
	return b
}

// one is the span of that name, of which there is one.
func (b *bench) one(name string) tracetest.SpanStub {
	b.Helper()
	var found []tracetest.SpanStub
	for _, s := range b.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		b.Fatalf("there are %d spans %q, among %v", len(found), name, names(b.spans.GetSpans()))
	}
	return found[0]
}

func names(spans tracetest.SpanStubs) (list []string) {
	for _, s := range spans {
		list = append(list, s.Name)
	}
	return list
}

// text is a list of attributes in one line.
func text(attrs []attribute.KeyValue) string {
	set := attribute.NewSet(attrs...)
	return set.Encoded(attribute.DefaultEncoder())
}

func (b *bench) wantAttributes(s tracetest.SpanStub, want string) {
	b.Helper()
	if got := text(s.Attributes); got != want {
		b.Errorf("span %q has\n%s, want\n%s", s.Name, got, want)
	}
}

// metrics lists what was recorded: each series with its count.
func (b *bench) metrics() map[string]uint64 {
	b.Helper()
	var all metricdata.ResourceMetrics
	if err := b.reader.Collect(b.Context(), &all); err != nil {
		b.Fatal(err)
	}
	found := map[string]uint64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					found[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = uint64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					found[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Count
				}
			}
		}
	}
	return found
}

// quick is a handler that completes its job.
func quick(context.Context, *dibs.RawJob) error { return nil }

func TestATraceGoesFromTheRequestToTheHandler(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var inside trace.SpanContext
	b.w.HandleRaw("welcome", func(ctx context.Context, _ *dibs.RawJob) error {
		inside = trace.SpanContextFromContext(ctx)
		return nil
	})
	ctx, request := b.traces.Tracer("test").Start(t.Context(), "request")
	if _, err := b.store.Enqueue(ctx, []dibs.NewJob{{Queue: "mail", Kind: "welcome"}}); err != nil {
		t.Fatal(err)
	}
	request.End()
	dibstest.Drain(t, b.w)

	enqueue, claim, process, finish := b.one("enqueue mail"), b.one("claim mail"), b.one("process mail"), b.one("finish mail")
	if enqueue.Parent.SpanID() != request.SpanContext().SpanID() || enqueue.SpanKind != trace.SpanKindProducer {
		t.Errorf("the span of enqueueing is a %v under %v", enqueue.SpanKind, enqueue.Parent)
	}
	if process.Parent.SpanID() != enqueue.SpanContext.SpanID() || process.SpanContext.TraceID() != request.SpanContext().TraceID() || process.SpanKind != trace.SpanKindConsumer {
		t.Errorf("the attempt's span is a %v of trace %v under %v", process.SpanKind, process.SpanContext.TraceID(), process.Parent)
	}
	if !inside.Equal(process.SpanContext) {
		t.Errorf("the handler ran in %v, not in the attempt's span", inside)
	}
	for _, s := range []tracetest.SpanStub{process, claim} {
		if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != enqueue.SpanContext.SpanID() {
			t.Errorf("span %q has the links %v", s.Name, s.Links)
		}
	}
	if claim.SpanKind != trace.SpanKindClient || finish.SpanKind != trace.SpanKindClient {
		t.Errorf("claim and finish are %v and %v", claim.SpanKind, finish.SpanKind)
	}
	const system = "messaging.destination.name=mail,messaging.message.id=1,messaging.operation.name=%s,messaging.operation.type=%s,messaging.system=dibs"
	b.wantAttributes(enqueue, fmt.Sprintf(system, "enqueue", "send"))
	b.wantAttributes(claim, fmt.Sprintf(system, "claim", "receive"))
	b.wantAttributes(finish, fmt.Sprintf(system, "finish", "settle"))
	b.wantAttributes(process, "messaging.destination.name=mail,messaging.dibs.attempt=1,messaging.dibs.kind=welcome,messaging.dibs.outcome=completed,"+
		"messaging.message.id=1,messaging.operation.name=process,messaging.operation.type=process,messaging.system=dibs")
	if process.Status.Code != codes.Unset || process.StartTime.Before(enqueue.StartTime) {
		t.Errorf("the attempt's span has status %v and began at %v", process.Status, process.StartTime)
	}

	const series = " messaging.destination.name=mail,messaging.operation.name=%s,messaging.operation.type=%s,messaging.system=dibs"
	found := b.metrics()
	for name, want := range map[string]uint64{
		"messaging.client.sent.messages" + fmt.Sprintf(series, "enqueue", "send"):       1,
		"messaging.client.consumed.messages" + fmt.Sprintf(series, "claim", "receive"):  1,
		"messaging.client.operation.duration" + fmt.Sprintf(series, "enqueue", "send"):  1,
		"messaging.client.operation.duration" + fmt.Sprintf(series, "finish", "settle"): 1,
		"messaging.process.duration messaging.destination.name=mail,messaging.dibs.kind=welcome,messaging.dibs.outcome=completed,messaging.operation.name=process,messaging.operation.type=process,messaging.system=dibs": 1,
		"messaging.dibs.wait.duration messaging.destination.name=mail,messaging.dibs.kind=welcome,messaging.operation.name=claim,messaging.operation.type=receive,messaging.system=dibs":                                  1,
	} {
		if found[name] != want {
			t.Errorf("%s is %d, want %d, among %v", name, found[name], want, found)
		}
	}
}

func TestWhateverEnqueuesHasASpan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job, err := dibs.NewKind[int]("typed", dibs.KindOptions{Queue: "mail"}).Enqueue(t.Context(), b.store, 1)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := b.store.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := []dibs.NewJob{{Kind: "a"}, {Queue: "mail", Kind: "b"}, {Queue: "mail", Kind: "c"}}
	if _, err := b.store.SQLTx(tx).Enqueue(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if batch[0].Metadata != nil {
		t.Error("the caller's own list was changed")
	}
	typed, mixed := b.one("enqueue mail"), b.one("enqueue")
	b.wantAttributes(mixed, "messaging.batch.message_count=3,messaging.operation.name=enqueue,messaging.operation.type=send,messaging.system=dibs")
	for id, span := range map[int64]tracetest.SpanStub{job.ID: typed, job.ID + 1: mixed, job.ID + 3: mixed} {
		j, err := b.store.Get(t.Context(), id)
		if want := fmt.Sprintf(`{"traceparent":"00-%s-%s-01"}`, span.SpanContext.TraceID(), span.SpanContext.SpanID()); err != nil || string(j.Metadata) != want {
			t.Errorf("job %d has metadata %s, %v, want %s", id, j.Metadata, err, want)
		}
	}
	const series = "messaging.client.sent.messages messaging.destination.name=%s,messaging.operation.name=enqueue,messaging.operation.type=send,messaging.system=dibs"
	found := b.metrics()
	if mail, plain := found[fmt.Sprintf(series, "mail")], found[fmt.Sprintf(series, dibs.DefaultQueue)]; mail != 3 || plain != 1 {
		t.Errorf("%d jobs of queue mail were counted and %d of the default one, want 3 and 1", mail, plain)
	}
}

func TestAnEnqueueThatIsRefusedSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.store.Enqueue(t.Context(), []dibs.NewJob{{Queue: "mail\xff", Kind: "a"}}); !errors.Is(err, dibs.ErrInvalid) {
		t.Fatal(err)
	}
	span := b.one("enqueue mail\uFFFD")
	if span.Status.Code != codes.Error || !strings.Contains(text(span.Attributes), "error.type=invalid") || len(span.Events) != 1 {
		t.Errorf("its span: %+v", span)
	}
	for name := range b.metrics() {
		if !strings.Contains(name, "error.type=invalid") {
			t.Errorf("%s has no error", name)
		}
	}
}

// strange is an error whose methods panic for nil.
type strange struct{ text string }

func (s *strange) Error() string { return s.text }

func (s *strange) Unwrap() error { return errors.New(s.text) }

func explode() { panic("boom") }

func TestHowAttemptsEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler func(ctx context.Context, job *dibs.RawJob) error
		last    bool
		outcome string
		failure string // error.type; empty: no failure
		message string
	}{
		"an error":                     {handler: func(context.Context, *dibs.RawJob) error { return fmt.Errorf("mail: %w", &json.SyntaxError{}) }, outcome: "retry", failure: "*json.SyntaxError", message: "mail: "},
		"the last attempt":             {handler: func(context.Context, *dibs.RawJob) error { return errors.New("no") }, last: true, outcome: "dead", failure: "*errors.errorString", message: "no"},
		"Die":                          {handler: func(context.Context, *dibs.RawJob) error { return fmt.Errorf("so: %w", dibs.Die(&json.SyntaxError{})) }, outcome: "dead", failure: "*json.SyntaxError", message: "so: dead: "},
		"a panic":                      {handler: func(context.Context, *dibs.RawJob) error { explode(); return nil }, outcome: "retry", failure: "panic", message: "panic: boom"},
		"a timeout":                    {handler: func(ctx context.Context, _ *dibs.RawJob) error { <-ctx.Done(); return ctx.Err() }, outcome: "retry", failure: "job_timeout", message: "context deadline exceeded"},
		"text that is not UTF-8":       {handler: func(context.Context, *dibs.RawJob) error { return errors.New("\xff") }, outcome: "retry", failure: "*errors.errorString", message: "\uFFFD"},
		"an error that cannot be read": {handler: func(context.Context, *dibs.RawJob) error { return (*strange)(nil) }, outcome: "retry", failure: "_OTHER", message: "<nil>"},
		"Goexit":                       {handler: func(context.Context, *dibs.RawJob) error { runtime.Goexit(); return nil }, outcome: "retry", failure: "*errors.errorString", message: "the handler ended its goroutine"},
		"Snooze":                       {handler: func(context.Context, *dibs.RawJob) error { return dibs.Snooze(time.Hour) }, outcome: "snooze"},
		"nil":                          {handler: quick, outcome: "completed"},
		"finished":                     {handler: func(context.Context, *dibs.RawJob) error { return dibs.ErrFinished }, outcome: "finished"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if name == "a timeout" {
				b.w.JobTimeout = time.Millisecond
			}
			b.w.HandleRaw("a", test.handler)
			job := dibs.NewJob{Kind: "a"}
			if test.last {
				job.MaxAttempts = 1
			}
			made := dibstest.Work(t, b.w, job)
			span := b.one("process mail")
			got := text(span.Attributes)
			if !strings.Contains(got, "messaging.dibs.outcome="+test.outcome+",") {
				t.Errorf("it has %s, want outcome %s", got, test.outcome)
			}
			if test.failure == "" {
				if span.Status.Code != codes.Unset || strings.Contains(got, "error.type") || len(span.Events) != 0 {
					t.Errorf("no failure, but %v, %s, %v", span.Status, got, span.Events)
				}
				return
			}
			if made.Outcome.Ending != dibs.Ending(test.outcome) {
				t.Errorf("the job ends in %q", made.Outcome.Ending)
			}
			if span.Status.Code != codes.Error || !strings.HasPrefix(span.Status.Description, test.message) || !strings.Contains(got, "error.type="+test.failure+",") {
				t.Errorf("it has status %+v and %s, want error.type %s", span.Status, got, test.failure)
			}
			if len(span.Events) != 1 || span.Events[0].Name != "exception" {
				t.Fatalf("it has the events %v", span.Events)
			}
			if stack := text(span.Events[0].Attributes); strings.Contains(stack, "explode") != (test.failure == "panic") {
				t.Errorf("the event has %s", stack)
			}
			if test.failure == "panic" && !strings.Contains(made.Outcome.Error, "explode") {
				t.Errorf("the job's error has lost where it panicked: %s", made.Outcome.Error)
			}
		})
	}
}

func TestWhatWasCancelledIsNoFailure(t *testing.T) {
	t.Parallel()
	for lease := dibs.MinLease; ; lease *= 4 { // the worker learns of it when it extends the lease, which a slow machine may lose before
		b, lost := newBench(t), false
		b.w.Lease = lease
		b.w.HandleRaw("a", func(ctx context.Context, job *dibs.RawJob) error {
			if _, _, err := b.store.Cancel(context.WithoutCancel(ctx), []int64{job.ID}); err != nil {
				return err
			}
			<-ctx.Done()
			lost = lost || errors.Is(context.Cause(ctx), dibs.ErrLeaseLost) // then another attempt follows
			return ctx.Err()
		})
		dibstest.Work(t, b.w, dibs.NewJob{Kind: "a"})
		if lost {
			continue
		}
		span := b.one("process mail")
		if got := text(span.Attributes); !strings.Contains(got, "outcome=cancelled") || span.Status.Code != codes.Unset {
			t.Errorf("it has %s and %v", got, span.Status)
		}
		return
	}
}

func TestEachAttemptIsUnderTheSameSpan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.w.HandleRaw("a", func(_ context.Context, job *dibs.RawJob) error {
		if job.Attempt == 1 {
			return dibs.RetryAfter(0, errors.New("busy"))
		}
		return nil
	})
	if _, err := b.store.Enqueue(t.Context(), []dibs.NewJob{{Queue: "mail", Kind: "a"}}); err != nil {
		t.Fatal(err)
	}
	dibstest.Drain(t, b.w)
	enqueue, attempts := b.one("enqueue mail"), 0
	for _, s := range b.spans.GetSpans() {
		if s.Name == "process mail" && s.Parent.SpanID() == enqueue.SpanContext.SpanID() {
			attempts++
		}
	}
	if attempts != 2 {
		t.Errorf("%d attempts are under the span that enqueued the job", attempts)
	}
}

func TestATickHasATraceOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.w.HandleRaw("a", quick)
	ctx, start := b.traces.Tracer("test").Start(t.Context(), "start of the program")
	defer start.End()
	if err := b.store.SetSchedules(ctx, "test", []dibs.Schedule{{Name: "hourly", Spec: "@hourly", Queue: "mail", Kind: "a"}}); err != nil {
		t.Fatal(err)
	}
	dibstest.Advance(t, b.store, time.Hour)
	dibstest.Drain(t, b.w)
	attempts := 0
	for _, s := range b.spans.GetSpans() {
		if s.Name != "process mail" {
			continue
		}
		attempts++
		if s.Parent.IsValid() || len(s.Links) != 0 {
			t.Errorf("the attempt is under %v", s.Parent)
		}
		if got := text(s.Attributes); !strings.Contains(got, "messaging.dibs.schedule=hourly,messaging.dibs.tick=") {
			t.Errorf("it has %s", got)
		}
	}
	if attempts == 0 {
		t.Error("no tick has come")
	}
}

func TestInstrumentRefusesAWorkerWithoutAStore(t *testing.T) {
	t.Parallel()
	store := dibstest.Store(t)
	for _, w := range []*dibs.Worker{nil, {}} {
		if err := dibsotel.Instrument(dibsotel.Options{}, store, &dibs.Worker{Store: store}, w); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
}
