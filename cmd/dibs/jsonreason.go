package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// jsonReason puts into words why JSON could not be read.
func jsonReason(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var when *time.ParseError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it is cut off"
	case errors.As(err, &syntax):
		return fmt.Sprintf("%v, at its byte %d", syntax, syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Sprintf("it must be %s, and is a %s", jsonKind(kind.Type), kind.Value)
	case errors.As(err, &kind):
		return fmt.Sprintf("%q must be %s, and is a %s", kind.Field, jsonKind(kind.Type), kind.Value)
	case errors.As(err, &when):
		return fmt.Sprintf("a time must be written as \"2026-11-21T08:30:00Z\", got %.40q", strings.Trim(when.Value, `"`))
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// jsonKind is what JSON has to hold for a value of that type.
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
