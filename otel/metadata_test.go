package dibsotel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/dibstest"
)

func TestMetadataIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const theirs = `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b"}`
	for metadata, want := range map[string]string{ // %s: the traceparent that is added
		``:                               `{"traceparent":"%s"}`,
		`{ }`:                            `{"traceparent":"%s"}`,
		`{"tenant":7,"a":{"b":[1,"<"]}}`: `{"tenant":7,"a":{"b":[1,"<"]},"traceparent":"%s"}`,
		`{"traceparent":1}`:              `{"traceparent":1}`,
		`{"traceparent":"nonsense"}`:     `{"traceparent":"nonsense"}`,
		theirs:                           theirs,
		long():                           long(),
	} {
		b.spans.Reset()
		job := dibs.NewJob{Queue: "mail", Kind: "a", Metadata: json.RawMessage(metadata)}
		done, err := b.store.Enqueue(t.Context(), []dibs.NewJob{job})
		if err != nil {
			t.Fatal(err)
		}
		span := b.one("enqueue mail")
		if strings.Contains(want, "%s") {
			want = fmt.Sprintf(want, fmt.Sprintf("00-%s-%s-01", span.SpanContext.TraceID(), span.SpanContext.SpanID()))
		}
		j, err := b.store.Get(t.Context(), done[0].ID)
		if err != nil || !same(t, j.Metadata, want) {
			t.Errorf("%.100s became %.200s, %v, want %.200s", metadata, j.Metadata, err, want)
		}
		if linked := len(span.Links) == 1 && span.Links[0].SpanContext.SpanID().String() == "b7ad6b7169203331"; linked != (metadata == theirs) {
			t.Errorf("%.100s: the span has the links %v", metadata, span.Links)
		}
	}
	for _, bad := range []string{`null`, `[]`, `{`, `"traceparent"`} {
		job := dibs.NewJob{Queue: "mail", Kind: "a", Metadata: json.RawMessage(bad)}
		if _, err := b.store.Enqueue(t.Context(), []dibs.NewJob{job}); err == nil || !strings.Contains(err.Error(), "jobs[0].metadata") {
			t.Errorf("%s gave %v", bad, err)
		}
	}
}

// A custom trace context is what the attempt belongs to, also if it names no span.
func TestAttemptsOfStrangeMetadataRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.w.HandleRaw("a", quick)
	for _, metadata := range []string{
		`{"traceparent":1}`, `{"traceparent":"nonsense"}`, `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`,
	} {
		b.spans.Reset()
		dibstest.Work(t, b.w, dibs.NewJob{Kind: "a", Metadata: json.RawMessage(metadata)})
		if under := b.one("process mail").Parent.SpanID(); under.IsValid() != strings.Contains(metadata, "00-") {
			t.Errorf("%s: the attempt is under %v", metadata, under)
		}
	}
}

// long is metadata without room for a trace context.
func long() string {
	return `{"x":"` + strings.Repeat("x", dibs.MaxMetadata-len(`{"x":""}`)) + `"}`
}

func same(t *testing.T, got json.RawMessage, want string) bool {
	t.Helper()
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		t.Fatalf("no JSON: %s or %s", got, want)
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}
