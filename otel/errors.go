package dibsotel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/dibs-queue/dibs"
)

// errorTypes are the errors that have a name of their own in error.type.
var errorTypes = []struct {
	err  error
	name string
}{
	{dibs.ErrLeaseLost, "lease_lost"},
	{dibs.ErrJobTimeout, "job_timeout"},
	{dibs.ErrInvalid, "invalid"},
	{dibs.ErrUnavailable, "unavailable"},
	{dibs.ErrDenied, "denied"},
	{dibs.ErrSchema, "schema"},
	{dibs.ErrClosed, "closed"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
}

// errorType is the attribute error.type of an error: a name of errorTypes, or else the error's Go type.
func errorType(err error) (failure attribute.KeyValue) {
	defer func() {
		if recover() != nil { // a method of err's, such as Unwrap of a nil pointer
			failure = semconv.ErrorTypeOther
		}
	}()
	for _, t := range errorTypes {
		if errors.Is(err, t.err) {
			return semconv.ErrorTypeKey.String(t.name)
		}
	}
	return semconv.ErrorType(cause(err))
}

// cause is the error that a handler wrapped into dibs.Die, dibs.Retry and so on, or err.
func cause(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if inner := errors.Unwrap(e); inner != nil && fmt.Sprintf("%T", e) == "*dibs.verdict" {
			return cause(inner)
		}
	}
	return err
}

// errorText is the text of an error, also of one whose method panics. Exporters refuse spans
// with text that is not UTF-8.
func errorText(err error) string {
	text := fmt.Sprint(err)
	return strings.ToValidUTF8(text[:min(len(text), dibs.MaxErrorText)], "\uFFFD")
}
