package wire

import (
	"bytes"
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

// Limited is a list of which one call takes only so many items. Limit refuses n of them, or returns nil. It is asked
// before the items are decoded: an item of two bytes takes fifty in memory, so a short list would take gigabytes.
type Limited interface {
	Limit(field string, n int) error
}

// ReadObject reads a line of JSON into the fields of a struct, to which to points. Misspelled and repeated fields
// are errors, also in objects inside it, so that none is ignored; case matters. If the line is JSON, and one field
// is wrong, the error is a FieldError, or that of a Limited list. A list that is not Limited may have dibs.MaxBatch
// items. The text is decoded only when all names in it are known and all lists are short enough.
func ReadObject(line []byte, to any) error {
	if !json.Valid(line) {
		return notJSON(line)
	}
	s := &scanner{text: line}
	if s.next() != '{' {
		return json.Unmarshal(line, to) // the value has no fields
	}
	if err := names(s, reflect.TypeOf(to).Elem()); err != nil {
		return err
	}
	wrong := json.Unmarshal(line, to)
	if wrong == nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return err // cannot happen: it has been read before
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := readField(name, fields[name], to); err != nil {
			return err
		}
	}
	return wrong
}

// notJSON is why a text is not exactly one value of JSON.
func notJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&ignored{}); err != nil {
		return err
	}
	return errors.New("it is followed by more than its line should hold")
}

// ignored is a value of which nothing is kept.
type ignored struct{}

// UnmarshalJSON takes any value.
func (*ignored) UnmarshalJSON([]byte) error { return nil }

// free are the fields whose JSON is the user's own, in which a name may come twice.
var free = map[string]bool{"payload": true, "metadata": true, "result": true, "value": true}

// maxFields is how many fields an object may have whose names are not checked here.
const maxFields = 1000

// names reads an object to its end, and finds a field that it, or an object inside it, has twice, or that is
// not in its struct, or whose list is too long; any is known unless t is one. The objects in lists are left out:
// they are read one by one.
func names(s *scanner, t reflect.Type) error {
	seen, known := map[string]bool{}, fieldsOf(t)
	s.at++
	for s.next() == '"' {
		name := unquoted(s.quoted())
		inside, is := known.of(name)
		switch {
		case seen[name]:
			return &FieldError{fieldName(name), errors.New("is given twice")}
		case !is: // the decoder would ignore its case
			return &FieldError{fieldName(name), errors.New("is an unknown field; the object has " + known.names)}
		case len(seen) == maxFields:
			return &FieldError{fieldName(name), fmt.Errorf("is one field too many; an object may have %d", maxFields)}
		}
		seen[name] = true
		if err := inspect(s, name, inside); err != nil {
			return err
		}
	}
	s.at++
	return nil
}

// longPath is how many bytes the path of a field inside others has at least before its beginning is left out.
const longPath = 200

// within puts the name of a field before that of a field inside it.
func within(name string, err error) error {
	if inner := (*FieldError)(nil); errors.As(err, &inner) && len(inner.Field) < longPath {
		inner.Field = fieldName(name) + "." + inner.Field
	}
	return err
}

// inspect reads the value of a field, and unless it is the user's own, finds what names looks for.
func inspect(s *scanner, name string, t reflect.Type) error {
	first := s.next()
	switch {
	case free[name] || first != '{' && first != '[':
		s.value()
		return nil
	case first == '{':
		return within(name, names(s, t))
	}
	n := s.items()
	if t != nil {
		if list, is := reflect.Zero(t).Interface().(Limited); is {
			return list.Limit(fieldName(name), n)
		}
	}
	if n > dibs.MaxBatch {
		return &FieldError{fieldName(name), fmt.Errorf("has %d items, the limit is %d", n, dibs.MaxBatch)}
	}
	return nil
}

// readField tells what is wrong with one field of an object; nil: nothing.
func readField(name string, value []byte, like any) error {
	try := func(value []byte) error {
		one := slices.Concat([]byte{'{'}, Encode(name), []byte{':'}, value, []byte{'}'})
		return json.Unmarshal(one, reflect.New(reflect.TypeOf(like).Elem()).Interface())
	}
	err := try(value)
	if err == nil {
		return nil
	}
	if inside, _ := fieldsOf(reflect.TypeOf(like).Elem()).of(name); fieldsOf(inside) != nil && value[0] == '{' {
		if err := ReadObject(value, reflect.New(inside).Interface()); err != nil {
			return within(name, err)
		}
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
	if try([]byte("[]")) == nil && json.Unmarshal(value, &items) == nil {
		for i, item := range items[:min(len(items), dibs.MaxBatch)] {
			if err := try(slices.Concat([]byte{'['}, item, []byte{']'})); err != nil {
				return ofItem(fmt.Sprintf("%s[%d]", field, i), err)
			}
		}
	}
	return &FieldError{field, err}
}

// ofItem is the error of an item of a list, or of a field of the item that reads its JSON by itself.
func ofItem(item string, err error) error {
	if inner := (*FieldError)(nil); errors.As(err, &inner) {
		return &FieldError{item + "." + inner.Field, inner.Err}
	}
	return &FieldError{item, err}
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
