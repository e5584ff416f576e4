package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
)

// Encode is json.Marshal for strings, but does not escape <, > and &.
func Encode(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // cannot happen: any string can be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// NewJob is a dibs.NewJob as JSON gives it, with durations in seconds.
type NewJob struct {
	Queue        string           `json:"queue,omitempty"`
	Kind         string           `json:"kind,omitempty"`
	Payload      json.RawMessage  `json:"payload,omitempty"`
	Metadata     json.RawMessage  `json:"metadata,omitempty"`
	Priority     *int             `json:"priority,omitempty"`
	Delay        *Seconds         `json:"delay,omitempty"`
	RunAt        *Time            `json:"run_at,omitempty"`
	MaxAttempts  *int             `json:"max_attempts,omitempty"`
	Group        string           `json:"group,omitempty"`
	UniqueKey    string           `json:"unique_key,omitempty"`
	UniqueUntil  dibs.UniqueUntil `json:"unique_until,omitempty"`
	UniqueFor    *Seconds         `json:"unique_for,omitempty"`
	UniqueWindow string           `json:"unique_window,omitempty"`
	IfHeld       dibs.IfHeld      `json:"if_held,omitempty"`
	DelayLimit   *Seconds         `json:"delay_limit,omitempty"`
	Ref          string           `json:"ref,omitempty"`
	After        Deps             `json:"after,omitempty"`
}

// Time is a time that JSON gives by the rules of RFC 3339, with a zone of less than 16 hours, which is
// all that PostgreSQL reads. The package time also takes a comma, an hour of one digit, and any zone.
type Time struct{ time.Time }

var timeForm = regexp.MustCompile(`^(-?[0-9]{4,6})-[0-9][0-9]-[0-9][0-9]T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?(Z|[-+](0[0-9]|1[0-5]):[0-5][0-9])$`)

// UnmarshalJSON reads a string.
func (t *Time) UnmarshalJSON(raw []byte) (err error) {
	const rule = `a time must be written as "2026-11-21T08:30:00Z", `
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return errors.New(rule + "in a string")
	}
	form := timeForm.FindStringSubmatch(text)
	if form == nil {
		return fmt.Errorf(rule+"got %.40q", text)
	}
	if year, _ := strconv.Atoi(form[1]); year < 0 || year > 9999 { // it is digits
		return fmt.Errorf("must lie in the years 1 to 9999, got year %d", year)
	}
	if t.Time, err = time.Parse(time.RFC3339, text); err != nil {
		return fmt.Errorf(rule+"got %.40q", text)
	}
	return nil
}

// ReadJob reads a JSON object of a job. What it does not say, job says. Errors are FieldErrors, or
// dibs.InvalidErrors of the field "job".
func ReadJob(line []byte, job dibs.NewJob) (dibs.NewJob, error) {
	if !utf8.Valid(line) { // the decoder would replace invalid bytes
		return job, &dibs.InvalidError{Field: "job", Reason: "is not valid UTF-8"}
	}
	var j NewJob
	err := ReadObject(line, &j)
	if err == nil && bytes.Equal(bytes.TrimSpace(line), []byte("null")) { // to the decoder an object without fields
		err = errors.New("it must be an object, and is null")
	}
	if errors.As(err, new(*FieldError)) {
		return job, err
	} else if err != nil {
		return job, &dibs.InvalidError{Field: "job", Reason: "is not a JSON object of a job: " + Reason(err)}
	}
	override(&job.Queue, j.Queue)
	override(&job.Kind, j.Kind)
	override(&job.Group, j.Group)
	override(&job.UniqueKey, j.UniqueKey)
	override(&job.UniqueUntil, j.UniqueUntil)
	override(&job.IfHeld, j.IfHeld)
	override(&job.Ref, j.Ref)
	if j.After != nil {
		job.After = j.After.deps()
	}
	if j.UniqueFor != nil || j.UniqueWindow != "" {
		job.UniqueFor, job.UniqueWindow = 0, j.UniqueWindow
	}
	if j.UniqueFor != nil {
		job.UniqueFor = time.Duration(*j.UniqueFor)
	}
	if j.DelayLimit != nil {
		job.DelayLimit = time.Duration(*j.DelayLimit)
	}
	if j.Payload != nil {
		job.Payload = j.Payload
	}
	if j.Metadata != nil {
		job.Metadata = j.Metadata
	}
	if j.Priority != nil {
		job.Priority = j.Priority
	}
	if j.MaxAttempts != nil {
		job.MaxAttempts = *j.MaxAttempts
	}
	if j.Delay != nil || j.RunAt != nil {
		job.Delay, job.RunAt = 0, time.Time{}
	}
	if j.Delay != nil {
		job.Delay = time.Duration(*j.Delay)
	}
	if j.RunAt != nil {
		job.RunAt = j.RunAt.Time
	}
	return job, nil
}

func override[T comparable](to *T, from T) {
	var none T
	if from != none {
		*to = from
	}
}

// InvalidJob reports whether err refuses the i-th job of a batch.
func InvalidJob(err error) (i int, rule *dibs.InvalidError, ok bool) {
	if !errors.As(err, &rule) {
		return 0, nil, false
	}
	if _, err := fmt.Sscanf(rule.Field, "jobs[%d].", &i); err != nil {
		return 0, nil, false
	}
	_, field, _ := strings.Cut(rule.Field, "].")
	return i, &dibs.InvalidError{Field: field, Reason: rule.Reason}, true
}
