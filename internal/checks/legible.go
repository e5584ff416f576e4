package checks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Legible finishes the reading of a job's row: whatever SQL by hand has left there, the job can
// be encoded as JSON after it. Where a column holds no JSON, the job has the text as a JSON string,
// and its Fault says so.
func Legible(j *dibs.RawJob) {
	if len(j.Payload) > 0 {
		Payload(j)
	}
	Claimed(j)
	if j.Result != nil {
		j.Result = legible(j, "result", j.Result, validJSON("", j.Result))
	}
}

// Payload is the part of Legible that looks at the JSON of the payload. Who passes a claimed job's
// payload on as it is calls it.
func Payload(j *dibs.RawJob) {
	j.Payload = legible(j, "payload", j.Payload, validJSON("", j.Payload))
}

// Claimed is Legible for claimed jobs, without Payload: that takes 4 us for 1 kB, a tenth of a
// drain's CPU, and who decodes a payload finds what is wrong with it.
func Claimed(j *dibs.RawJob) {
	switch {
	case len(j.Payload) == 0:
		legible(j, "payload", nil, invalid("", "is missing or empty; it must be JSON (null for none)"))
		j.Payload = json.RawMessage("null")
	case !utf8.Valid(j.Payload): // a decoder would replace the invalid bytes silently
		j.Payload = legible(j, "payload", j.Payload, invalid("", "is not valid UTF-8"))
	default:
		j.Payload = legible(j, "payload", j.Payload, shallow("", j.Payload))
	}
	if j.Metadata != nil {
		j.Metadata = legible(j, "metadata", j.Metadata, object("", j.Metadata, len(j.Metadata)))
	}
}

// legible returns the JSON of a column as it is, or, if err says that it is damaged, in a form that can be shown.
func legible(j *dibs.RawJob, column string, text json.RawMessage, err error) json.RawMessage {
	var e *dibs.InvalidError
	if !errors.As(err, &e) {
		return text
	}
	if j.Fault == "" {
		j.Fault = fmt.Sprintf("its column %s %s", column, e.Reason)
	}
	return quoted(text)
}

// Texts says what is wrong with a job's payload and metadata, for a check of the database.
func Texts(j *dibs.RawJob) []string {
	if Legible(j); j.Fault == "" {
		return nil
	}
	return []string{fmt.Sprintf("job %d: %s; a worker ends it as dead", j.ID, j.Fault)}
}

// quoted encodes a text as a JSON string. It leaves <, > and & as they are, which json.Marshal escapes for HTML.
func quoted(raw []byte) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ToValidUTF8(string(raw), string(utf8.RuneError))) // a string always encodes
	return bytes.TrimSpace(b.Bytes())
}

// Counts marks counts that cannot be right. What is below zero is shown as 0.
func Counts(q *admin.QueueStats) {
	q.Miscounted = q.Waiting < q.Scheduled || q.Waiting == 0 && q.OldestAge > 0
	for _, n := range []*int64{&q.Waiting, &q.Scheduled, &q.Blocked, &q.Running, &q.Completed, &q.Dead, &q.Cancelled} {
		q.Miscounted = q.Miscounted || *n < 0
		*n = max(*n, 0)
	}
}

// These are the first and the last time that JSON can show.
var (
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
)

// Time is a time as it was read, or the nearest one that JSON can show.
func Time(t time.Time) time.Time {
	switch t = t.UTC(); {
	case t.Before(firstTime):
		return firstTime
	case t.After(lastTime):
		return lastTime
	}
	return t
}
