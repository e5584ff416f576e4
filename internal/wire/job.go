package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	RunAt        *time.Time       `json:"run_at,omitempty"`
	MaxAttempts  *int             `json:"max_attempts,omitempty"`
	Group        string           `json:"group,omitempty"`
	UniqueKey    string           `json:"unique_key,omitempty"`
	UniqueUntil  dibs.UniqueUntil `json:"unique_until,omitempty"`
	UniqueFor    *Seconds         `json:"unique_for,omitempty"`
	UniqueWindow string           `json:"unique_window,omitempty"`
	IfHeld       dibs.IfHeld      `json:"if_held,omitempty"`
	DelayLimit   *Seconds         `json:"delay_limit,omitempty"`
}

// ReadJob reads a JSON object of a job. What it does not say, job says.
func ReadJob(line []byte, job dibs.NewJob) (dibs.NewJob, error) {
	if !utf8.Valid(line) { // the decoder would replace invalid bytes
		return job, &dibs.InvalidError{Field: "job", Reason: "is not valid UTF-8"}
	}
	var j NewJob
	if err := ReadObject(line, &j); err != nil {
		return job, &dibs.InvalidError{Field: "job", Reason: "is not a JSON object of a job: " + Reason(err)}
	}
	override(&job.Queue, j.Queue)
	override(&job.Kind, j.Kind)
	override(&job.Group, j.Group)
	override(&job.UniqueKey, j.UniqueKey)
	override(&job.UniqueUntil, j.UniqueUntil)
	override(&job.IfHeld, j.IfHeld)
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
		job.RunAt = *j.RunAt
	}
	return job, nil
}

// Outcome is a dibs.Outcome as JSON gives it.
type Outcome struct {
	ID     int64           `json:"id"`
	Token  dibs.Token      `json:"token"`
	Ending dibs.Ending     `json:"ending"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
	Delay  *Seconds        `json:"delay"`
}

// Outcome is the library's form.
func (o *Outcome) Outcome() dibs.Outcome {
	return dibs.Outcome{ID: o.ID, Token: o.Token, Ending: o.Ending, Result: o.Result, Error: o.Error, Delay: (*time.Duration)(o.Delay)}
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
