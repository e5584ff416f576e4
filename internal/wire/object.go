package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// FieldError says which field of an object cannot be read. It is a dibs.InvalidError to errors.As.
type FieldError struct {
	Field string // such as "delay" or "kinds[3]"
	Err   error  // see Reason
}

func (e *FieldError) Error() string { return e.Field + ": " + Reason(e.Err) }

// Unwrap makes it a dibs.InvalidError.
func (e *FieldError) Unwrap() error {
	return &dibs.InvalidError{Field: e.Field, Reason: Reason(e.Err)}
}

// ReadObject reads a line of JSON into the fields of a struct, to which to points. Misspelled and repeated fields
// are errors, also in objects inside it, so that none is ignored; case matters. If the line is JSON, and one field
// is wrong, the error is a FieldError.
func ReadObject(line []byte, to any) error {
	d := strict(line)
	wrong := d.Decode(to)
	if isSyntax(wrong) {
		return wrong
	}
	if wrong == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) { // More ignores a } or ] too many
			return errors.New("it is followed by more than its line should hold")
		}
	}
	d = json.NewDecoder(bytes.NewReader(line))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return cmp.Or(wrong, err) // the value has no fields
	}
	if err := names(d, reflect.TypeOf(to).Elem()); err != nil || wrong == nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line[:d.InputOffset()], &fields); err != nil {
		return err // cannot happen: it has been read before
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := readField(name, fields[name], to); err != nil {
			return err
		}
	}
	return wrong
}

// free are the fields whose JSON is the user's own, in which a name may come twice.
var free = map[string]bool{"payload": true, "metadata": true, "result": true}

// names reads an object to its end, and finds a field that it, or an object inside it, has twice, or that is
// not in its struct; any is known unless t is one. Lists are left out: their objects are read one by one.
func names(d *json.Decoder, t reflect.Type) error {
	seen, known := map[string]bool{}, fieldsOf(t)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name := fmt.Sprint(token)
		if seen[name] {
			return &FieldError{fieldName(name), errors.New("is given twice")}
		}
		seen[name] = true
		inside, is := known.of(name)
		if !is { // the decoder would ignore its case
			return &FieldError{fieldName(name), errors.New("is an unknown field; the object has " + known.names)}
		}
		if err := value(d, free[name], inside); err != nil {
			if inner := (*FieldError)(nil); errors.As(err, &inner) && len(inner.Field) < longPath {
				inner.Field = fieldName(name) + "." + inner.Field
			}
			return err
		}
	}
	_, err := d.Token()
	return err
}

// longPath is how many bytes the path of a field inside others has at least before its beginning is left out.
const longPath = 200

// value reads the value of a field, and unless it is the user's own, what names looks for.
func value(d *json.Decoder, own bool, t reflect.Type) error {
	var skipped json.RawMessage
	if own {
		return d.Decode(&skipped)
	}
	first, err := d.Token()
	if err != nil || first != json.Delim('[') && first != json.Delim('{') {
		return err
	}
	if first == json.Delim('{') {
		return names(d, t)
	}
	for d.More() {
		if err := d.Decode(&skipped); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func strict(text []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d
}

// isSyntax reports whether an error of the decoder says that a text is no JSON.
func isSyntax(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(*json.SyntaxError))
}

// readField tells what is wrong with one field of an object; nil: nothing.
func readField(name string, value []byte, like any) error {
	try := func(value []byte) error {
		one := slices.Concat([]byte{'{'}, Encode(name), []byte{':'}, value, []byte{'}'})
		return strict(one).Decode(reflect.New(reflect.TypeOf(like).Elem()).Interface())
	}
	err := try(value)
	if err == nil {
		return nil
	}
	field := fieldName(name)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		path := embedding.ReplaceAllString(kind.Field, "")
		if _, inner, found := strings.Cut(path, "."); found {
			return &FieldError{field + "." + inner, err}
		}
	}
	var items []json.RawMessage
	if json.Unmarshal(value, &items) == nil && try([]byte("[]")) == nil {
		for i, item := range items[:min(len(items), dibs.MaxBatch)] {
			if err := try(slices.Concat([]byte{'['}, item, []byte{']'})); err != nil {
				return &FieldError{fmt.Sprintf("%s[%d]", field, i), err}
			}
		}
	}
	return &FieldError{field, err}
}

// fieldName is the name of a field for a message.
func fieldName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return fmt.Sprintf("%.60q", name)
}

var plainName = regexp.MustCompile(`^\w{1,60}$`)

// Reason explains in words why JSON could not be read.
func Reason(err error) string {
	var field *FieldError
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var when *time.ParseError
	switch {
	case errors.As(err, &field):
		return field.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it is cut off"
	case errors.As(err, &syntax):
		return fmt.Sprintf("%v, at its byte %d", syntax, syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Sprintf("it must be %s, and is %.43s", jsonKind(kind.Type), withArticle(kind.Value))
	case errors.As(err, &kind):
		return fmt.Sprintf("must be %s, and is %.43s", jsonKind(kind.Type), withArticle(kind.Value))
	case errors.As(err, &when):
		return fmt.Sprintf("a time must be written as \"2026-11-21T08:30:00Z\", got %.40q", strings.Trim(when.Value, `"`))
	case strings.HasPrefix(err.Error(), "Time.UnmarshalJSON: "): // the package has no type for it
		return `a time must be written as "2026-11-21T08:30:00Z", in a string`
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
	case kind == reflect.Float32, kind == reflect.Float64:
		return "a number"
	case kind == reflect.Struct, kind == reflect.Map:
		return "an object"
	case kind == reflect.Slice, kind == reflect.Array:
		return "a list"
	case kind == reflect.Bool:
		return "true or false"
	}
	return "a " + t.Kind().String()
}
