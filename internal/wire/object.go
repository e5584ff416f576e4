package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// ReadObject reads a line of JSON into an object's fields. Misspelled and repeated fields
// are errors, so that none is ignored.
func ReadObject(line []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // More ignores a } or ] too many
		return errors.New("it is followed by more than its line should hold")
	}
	d = json.NewDecoder(bytes.NewReader(line))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return err // the value is null, which has no fields
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		field := strings.ToLower(fmt.Sprint(name)) // the decoder ignores the case of a field
		if seen[field] {
			return fmt.Errorf("it has the field %q twice", field)
		}
		seen[field] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

// Reason explains in words why JSON could not be read.
func Reason(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var when *time.ParseError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it is cut off"
	case errors.As(err, &syntax):
		return fmt.Sprintf("%v, at its byte %d", syntax, syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Sprintf("it must be %s, and is %.43s", jsonKind(kind.Type), withArticle(kind.Value))
	case errors.As(err, &kind):
		return fmt.Sprintf("%q must be %s, and is %.43s", embedding.ReplaceAllString(kind.Field, ""), jsonKind(kind.Type), withArticle(kind.Value))
	case errors.As(err, &when):
		return fmt.Sprintf("a time must be written as \"2026-11-21T08:30:00Z\", got %.40q", strings.Trim(when.Value, `"`))
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// withArticle is a kind of JSON value, such as "array", after "is".
func withArticle(kind string) string {
	if strings.HasPrefix(kind, "a") || strings.HasPrefix(kind, "o") {
		return "an " + kind
	}
	return "a " + kind
}

// embedding is what the decoder puts before the fields of a struct that is a part of another: the
// part's name in Go.
var embedding = regexp.MustCompile(`\b[A-Z]\w*\.`)

// jsonKind names the kind of JSON value for a Go type.
func jsonKind(t reflect.Type) string {
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[dibs.Token]():
		return "a string of 32 hexadecimal digits"
	case kind >= reflect.Int && kind <= reflect.Uint64:
		return "a whole number"
	case kind == reflect.Struct, kind == reflect.Map:
		return "an object"
	case kind == reflect.Slice, kind == reflect.Array:
		return "a list"
	case kind == reflect.Bool:
		return "true or false"
	}
	return "a " + t.Kind().String()
}
