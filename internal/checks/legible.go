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
)

// Legible finishes the reading of a job's row: whatever SQL by hand has left there, the job can
// be encoded as JSON after it. Where a column holds no JSON, the job has the text as a JSON string,
// and its Fault says so.
func Legible(j *dibs.RawJob) {
	fault := func(column string, err error) {
		var e *dibs.InvalidError
		if j.Fault == "" && errors.As(err, &e) {
			j.Fault = fmt.Sprintf("its column %s %s", column, e.Reason)
		}
	}
	if len(j.Payload) == 0 {
		fault("payload", invalid("", "is missing or empty; it must be JSON (null for none)"))
		j.Payload = json.RawMessage("null")
	} else if err := validJSON("", j.Payload); err != nil {
		fault("payload", err)
		j.Payload = quoted(j.Payload)
	}
	if j.Metadata != nil {
		if err := object("", j.Metadata, len(j.Metadata)); err != nil {
			fault("metadata", err)
			j.Metadata = quoted(j.Metadata)
		}
	}
	if j.Result != nil {
		if err := validJSON("", j.Result); err != nil {
			fault("result", err)
			j.Result = quoted(j.Result)
		}
	}
}

// Texts says what is wrong with a job's payload and metadata, for a check of the database.
func Texts(j *dibs.RawJob) []string {
	if Legible(j); j.Fault == "" {
		return nil
	}
	return []string{fmt.Sprintf("job %d: %s; a worker ends it as dead", j.ID, j.Fault)}
}

// quoted is a text as a JSON string. An encoder leaves characters alone that mean something in
// HTML, which json.Marshal would not.
func quoted(raw []byte) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ToValidUTF8(string(raw), string(utf8.RuneError))) // a string always encodes
	return bytes.TrimSpace(b.Bytes())
}

// Counts marks counts that cannot be right. What is below zero is shown as 0.
func Counts(q *dibs.QueueStats) {
	q.Miscounted = q.Waiting < q.Scheduled || q.Waiting == 0 && q.OldestAge > 0
	for _, n := range []*int64{&q.Waiting, &q.Scheduled, &q.Blocked, &q.Running, &q.Completed, &q.Dead, &q.Cancelled} {
		q.Miscounted = q.Miscounted || *n < 0
		*n = max(*n, 0)
	}
}

// Times that JSON can show.
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
