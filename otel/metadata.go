package dibsotel

import (
	"bytes"
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dibs-queue/dibs"
)

// parentMember is the member of a job's metadata that names the span that enqueued it.
const parentMember = "traceparent"

// creation is the span that a job's metadata names as the one that enqueued it; invalid if
// there is none.
func creation(metadata json.RawMessage) trace.SpanContext {
	if !bytes.Contains(metadata, []byte(parentMember)) {
		return trace.SpanContext{}
	}
	var members struct {
		Parent string `json:"traceparent"`
		State  string `json:"tracestate"`
	}
	if json.Unmarshal(metadata, &members) != nil {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": members.Parent, "tracestate": members.State}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// mark adds the members that name the span of ctx to the metadata of each job that has none.
func mark(ctx context.Context, jobs []dibs.NewJob) {
	members := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, members)
	if len(members) == 0 {
		return
	}
	alone, err := json.Marshal(members)
	if err != nil {
		return
	}
	for i := range jobs {
		switch metadata := &jobs[i].Metadata; {
		case len(*metadata) == 0:
			*metadata = alone
		default:
			*metadata = with(members, *metadata)
		}
	}
}

// with is metadata with the members, or as it was: if it has a parent, is no object, which
// the store refuses, or would grow too long.
func with(members propagation.MapCarrier, metadata json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(metadata, &all) != nil || all == nil || all[parentMember] != nil {
		return metadata
	}
	for name, value := range members {
		all[name], _ = json.Marshal(value) // a string can be encoded
	}
	if marked, err := json.Marshal(all); err == nil && len(marked) <= dibs.MaxMetadata {
		return marked
	}
	return metadata
}
