package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
)

// readBody reads the body of a request, a JSON object, into a struct.
func readBody(r *http.Request, to any) error {
	body, err := bodyOf(r, "application/json")
	if err != nil {
		return err
	}
	return readObject("body", body, to)
}

// change is a body that changes settings T which exist. What the body leaves out stays.
type change[T any] struct {
	body  json.RawMessage
	given T // what the body gives, and nothing else
}

// readChange reads a change. It refuses null, which would say neither that a field stays nor what it becomes.
func readChange[T any](r *http.Request) (c change[T], err error) {
	if c.body, err = bodyOf(r, "application/json"); err != nil {
		return c, err
	}
	if err := readObject("body", c.body, new(map[string]json.RawMessage)); err != nil {
		return c, err
	}
	if err := noNulls("", c.body); err != nil {
		return c, err
	}
	return c, c.make(&c.given)
}

// make changes the settings.
func (c *change[T]) make(settings *T) error { return readObject("body", c.body, settings) }

// noNulls refuses a JSON object in which a field is null, unless the field may be any JSON.
func noNulls(path string, object []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return err // cannot happen: the text was read before
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name]; {
		case name == "payload" || name == "metadata":
		case string(value) == "null" && (name == "rate" || name == "group_rate"):
			return &dibs.InvalidError{Field: path + name, Reason: `must not be null; {"n": 0} takes the rate away, and what is left out stays`}
		case string(value) == "null":
			return &dibs.InvalidError{Field: path + name, Reason: "must not be null; what is left out stays"}
		case value[0] == '{' && path == "": // only one level: parts of settings have no parts, and each level would be read once more
			if err := noNulls(path+name+".", value); err != nil {
				return err
			}
		}
	}
	return nil
}

// bodyOf returns the whole body of a request, which must be of this media type. Browsers send
// bodies of such a type to another origin only if that agrees.
func bodyOf(r *http.Request, media string) ([]byte, error) {
	if err := mediaType(r, media); err != nil {
		return nil, err
	}
	if r.ContentLength < 0 || r.ContentLength > uncounted { // io.ReadAll grows in pieces, which costs half as much as a bytes.Buffer
		text, err := io.ReadAll(r.Body)
		return text, unread(err)
	}
	b := bytes.NewBuffer(make([]byte, 0, int(r.ContentLength)+bytes.MinRead))
	_, err := b.ReadFrom(r.Body)
	return b.Bytes(), unread(err)
}

func mediaType(r *http.Request, want string) error {
	given := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(given); err != nil || media != want {
		return &problemError{kind: wrongMedia, detail: fmt.Sprintf("send the header Content-Type: %s; it was %.60q", want, given)}
	}
	return nil
}

// unread says why a body could not be read to its end; nil: it could.
func unread(err error) error {
	if err == nil || errors.As(err, new(*http.MaxBytesError)) || errors.As(err, new(*problemError)) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &problemError{kind: malformed, field: "body", detail: "is cut off"}
	}
	return &problemError{kind: malformed, field: "body", detail: "could not be read"}
}

// readObject reads a JSON object into a struct. Misspelled and repeated fields are errors.
func readObject(field string, raw []byte, to any) error {
	if !utf8.Valid(raw) { // the decoder would replace invalid bytes
		return &problemError{kind: malformed, field: field, detail: "is not valid UTF-8"}
	}
	if first := bytes.TrimLeft(raw, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return &problemError{kind: malformed, field: field, detail: "must be a JSON object"}
	}
	var limit *dibs.InvalidError
	switch err := wire.ReadObject(raw, to); {
	case err == nil:
		return wholeCharacters(field, raw)
	case !errors.As(err, new(*wire.FieldError)) && errors.As(err, &limit): // a list is too long
		return limit
	default:
		return unreadable(field, err, "cannot be read: "+wire.Reason(err))
	}
}

// unreadable describes why a JSON object cannot be read: because of one of its fields, or as a whole.
func unreadable(object string, err error, whole string) error {
	var field *wire.FieldError
	switch {
	case !errors.As(err, &field):
		return &problemError{kind: malformed, field: object, detail: whole}
	case object == "body" || object == "job":
		return &problemError{kind: malformed, field: field.Field, detail: wire.Reason(field.Err)}
	}
	return &problemError{kind: malformed, field: object + "." + field.Field, detail: wire.Reason(field.Err)}
}

// readJob reads the JSON object of a job. A job without a kind gets the name of its queue as kind.
func readJob(field string, raw []byte) (dibs.NewJob, error) {
	if first := bytes.TrimLeft(raw, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return dibs.NewJob{}, &problemError{kind: malformed, field: field, detail: "must be a JSON object"}
	}
	j, err := wire.ReadJob(raw, dibs.NewJob{Queue: dibs.DefaultQueue})
	var rule *dibs.InvalidError
	if errors.As(err, &rule) {
		return j, unreadable(field, err, rule.Reason)
	}
	if err == nil {
		err = wholeCharacters(field, raw)
	}
	if j.Kind == "" {
		j.Kind = j.Queue
	}
	return j, err
}

// passedOn lists the fields in which half a surrogate pair is accepted. JSON goes to the database as it is
// written; in an error the half is replaced by U+FFFD, so that the attempt can be finished.
var passedOn = []string{"payload", "metadata", "result", "value", "error"}

// wholeCharacters refuses half a surrogate pair, such as \ud800, in names and keys of a JSON object. The decoder
// replaces it, as it replaces invalid UTF-8, so several names would become one.
func wholeCharacters(object string, raw []byte) error {
	if wire.HalfAt(raw) < 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err // cannot happen: the text was read before
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		isText := bytes.HasPrefix(bytes.TrimLeft(fields[name], "[ \t\r\n"), []byte(`"`)) // or a list of texts; objects in it are checked when they are read
		if !isText || slices.Contains(passedOn, strings.ToLower(name)) || wire.HalfAt(fields[name]) < 0 {
			continue
		}
		if object != "body" && object != "job" {
			name = object + "." + name
		}
		return &problemError{kind: malformed, field: clip(name), detail: `has half of a surrogate pair, such as \ud800 alone, which is no character`}
	}
	return nil
}

func idsOf(list idList) []int64 {
	ids := make([]int64, len(list))
	for i, id := range list {
		ids[i] = int64(id)
	}
	return ids
}

// pathID is the id of a job in the path.
func pathID(r *http.Request) (int64, error) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, &dibs.InvalidError{Field: "id", Reason: fmt.Sprintf("must be a job's id, got %.40q", text)}
	}
	return id, nil
}

// query reads the parameters after the ? of a request. A name that the call does not know, or
// that comes twice, is an error.
func query(r *http.Request, names ...string) (map[string]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &problemError{kind: malformed, field: "query", detail: "cannot be read"}
	}
	one := make(map[string]string, len(values))
	for name, list := range values {
		switch {
		case !slices.Contains(names, name):
			return nil, &dibs.InvalidError{Field: clip(name), Reason: "is no parameter of this call" + knownNames(names)}
		case len(list) > 1:
			return nil, &dibs.InvalidError{Field: name, Reason: "is given twice"}
		}
		one[name] = list[0]
	}
	return one, nil
}

func knownNames(names []string) string {
	if len(names) == 0 {
		return ", which has none"
	}
	return "; it has " + strings.Join(names, ", ")
}

// clip shortens what a caller has named, for a message.
func clip(s string) string { return fmt.Sprintf("%.60s", strings.ToValidUTF8(s, "?")) }

// number reads a whole number of the query; none is 0.
func number(q map[string]string, name string) (int, error) {
	text, given := q[name]
	if !given {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, &dibs.InvalidError{Field: name, Reason: fmt.Sprintf("must be a whole number, got %.40q", text)}
	}
	return n, nil
}

// yesNo reads a parameter of the query that is true or false; none is false.
func yesNo(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" && !r.URL.Query().Has(name) {
		return false, nil
	}
	yes, err := strconv.ParseBool(text)
	if err != nil {
		return false, &dibs.InvalidError{Field: name, Reason: fmt.Sprintf("must be true or false, got %.40q", text)}
	}
	return yes, nil
}

// rawList is a list in JSON whose items are read one by one, so that an error can say which.
type rawList []json.RawMessage

// Limit refuses too many before they are decoded; see wire.Limited.
func (rawList) Limit(field string, n int) error { return checks.Batch(field, n) }

// idList is a list of jobs' ids.
type idList []wire.ID

// Limit refuses too many before they are decoded; see wire.Limited.
func (idList) Limit(field string, n int) error { return checks.Batch(field, n) }

// kindList is a list of kinds.
type kindList []string

// Limit refuses too many before they are decoded; see wire.Limited.
func (kindList) Limit(field string, n int) error { return checks.Listed(field, n) }

func missing(field string) error { return &dibs.InvalidError{Field: field, Reason: "is missing"} }
