// Package checks refuses bad input before a store does anything with it, in the
// same words for every database.
package checks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/chars"
	"github.com/dibs-queue/dibs/internal/nesting"
)

// Row is a NewJob with its defaults filled in, ready to be stored.
type Row struct {
	Queue, Kind string
	Payload     []byte // valid JSON in UTF-8
	Metadata    []byte // nil or a JSON object
	Priority    int16
	Delay       time.Duration // used when RunAt is zero
	RunAt       time.Time
	MaxAttempts int // 0: as many as the queue's setting
	Group       string
	UniqueKey   string
	UniqueUntil dibs.UniqueUntil // empty if the job has no key

	Period     Period
	IfHeld     dibs.IfHeld // empty if the job has no key
	DelayLimit time.Duration

	Edges []Edge // the jobs that it comes after
}

// Jobs checks a batch for Enqueue. limit gives a queue's payload limit in bytes.
func Jobs(jobs []dibs.NewJob, limit func(queue string) (int, error)) ([]Row, error) {
	if err := Batch("jobs", len(jobs)); err != nil {
		return nil, err
	}
	rows := make([]Row, len(jobs))
	for i := range jobs {
		r, err := row(&jobs[i])
		if err != nil {
			return nil, inBatch(err, "jobs", i)
		}
		rows[i] = r
	}
	if err := edges(jobs, rows); err != nil {
		return nil, err
	}
	return rows, CheckPayloads(rows, limit)
}

// CheckPayloads refuses payloads over the limit of their queue.
func CheckPayloads(rows []Row, limit func(queue string) (int, error)) error {
	for i := range rows {
		most, err := limit(rows[i].Queue)
		if err != nil {
			return err
		}
		if n := len(rows[i].Payload); n > most {
			return inBatch(invalid("payload", "is %d bytes, the limit of queue %q is %d", n, rows[i].Queue, most), "jobs", i)
		}
	}
	return nil
}

func row(j *dibs.NewJob) (Row, error) {
	r := Row{
		Queue: j.Queue, Kind: j.Kind, Priority: dibs.DefaultPriority,
		Delay: j.Delay, RunAt: j.RunAt, MaxAttempts: j.MaxAttempts, Group: j.Group,
		UniqueKey: j.UniqueKey,
	}
	if r.Queue == "" {
		r.Queue = dibs.DefaultQueue
	}
	if err := first(
		Name("queue", r.Queue),
		Name("kind", r.Kind),
		optionalName("group", r.Group),
		text("unique_key", r.UniqueKey, dibs.MaxUniqueKey),
		attempts(r.MaxAttempts),
		start(j),
	); err != nil {
		return r, err
	}
	if j.Priority != nil {
		if err := priority(*j.Priority); err != nil {
			return r, err
		}
		r.Priority = int16(*j.Priority)
	}
	if err := unique(j, &r); err != nil {
		return r, err
	}
	var err error
	if r.Payload, err = payload(j.Payload); err != nil {
		return r, err
	}
	r.Metadata = j.Metadata
	if len(r.Metadata) == 0 {
		r.Metadata = nil
		return r, nil
	}
	if err := object("metadata", r.Metadata, dibs.MaxMetadata); err != nil {
		return r, err
	}
	return r, ownMembers("metadata", r.Metadata)
}

// ownMembers refuses an object with names that begin with "dibs.": only the store may write them, to say which schedule
// has enqueued a job. Upper case and escapes make no difference.
func ownMembers(field string, object []byte) error {
	const ours = "dibs."
	if !bytes.Contains(object, []byte(`\`)) && !bytes.Contains(bytes.ToLower(object), []byte(ours)) {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return invalid(field, "is not a JSON object")
	}
	for name := range members {
		if strings.HasPrefix(strings.ToLower(name), ours) {
			return invalid(field, "must not have members whose names begin with %q: only dibs writes those", ours)
		}
	}
	return nil
}

func payload(v any) ([]byte, error) {
	var raw []byte
	switch p := v.(type) {
	case nil:
		return []byte("null"), nil
	case json.RawMessage:
		raw = p
	case []byte:
		raw = p
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, invalid("payload", "cannot be encoded as JSON: %v", err)
		}
		return raw, shallow("payload", raw)
	}
	if len(raw) == 0 {
		return nil, invalid("payload", "is empty; it must be JSON (null for none)")
	}
	return raw, validJSON("payload", raw)
}

func start(j *dibs.NewJob) error {
	if j.Delay != 0 && !j.RunAt.IsZero() {
		return invalid("delay", "give either delay or run_at, not both")
	}
	if err := delay("delay", j.Delay); err != nil {
		return err
	}
	return RunAt(j.RunAt)
}

// RunAt checks a start time; zero is fine.
func RunAt(t time.Time) error {
	if year := t.UTC().Year(); !t.IsZero() && (year < 1 || year > 9999) {
		return invalid("run_at", "must lie in the years 1 to 9999, got year %d", year)
	}
	return nil
}

// delay checks a delay of a start, retry or snooze.
func delay(field string, d time.Duration) error {
	if d < 0 {
		return invalid(field, "must not be negative, got %v", d)
	}
	if d > dibs.MaxDelay {
		return invalid(field, "must be at most %v, got %v", dibs.MaxDelay, d)
	}
	return nil
}

// priority checks a job's priority.
func priority(p int) error {
	if p < 0 || p > dibs.MaxPriority {
		return invalid("priority", "must be 0 to %d, got %d", dibs.MaxPriority, p)
	}
	return nil
}

func attempts(n int) error {
	if n < 0 || n > 1_000_000 {
		return invalid("max_attempts", "must be 1 to 1000000, or 0 for the queue's, got %d", n)
	}
	return nil
}

// Name checks a queue, kind, group or worker name that must be there.
func Name(field, s string) error {
	if s == "" {
		return invalid(field, "is missing")
	}
	return optionalName(field, s)
}

func optionalName(field, s string) error {
	if field == "queue" && strings.Contains(s, "://") { // a URL may hold a password, so the error does not quote it
		return invalid(field, "must not contain ://: the URL of a database goes to --db")
	}
	return text(field, s, dibs.MaxName)
}

func text(field, s string, most int) error {
	if len(s) > most {
		return invalid(field, "is %d bytes, the limit is %d", len(s), most)
	}
	if !utf8.ValidString(s) {
		return invalid(field, "is not valid UTF-8: %q", clip(s))
	}
	for _, r := range s {
		switch {
		case unicode.IsControl(r):
			return invalid(field, "must not contain control characters, has %q in %q", r, clip(s))
		case chars.Unsafe(r):
			return invalid(field, "must not contain characters that turn the direction of text or separate lines, has %q in %q", r, clip(s))
		}
	}
	return nil
}

func validJSON(field string, raw []byte) error {
	if !utf8.Valid(raw) {
		return invalid(field, "is not valid UTF-8")
	}
	if err := shallow(field, raw); err != nil || json.Valid(raw) {
		return err
	}
	var v any
	err := json.Unmarshal(raw, &v)
	return invalid(field, "is not valid JSON: %v: %q", err, clip(string(raw)))
}

// shallow refuses JSON that is nested so deep that decoders of Go or other languages might not read it.
func shallow(field string, raw []byte) error {
	if nesting.Over(raw, dibs.MaxDepth) {
		return invalid(field, "is nested more than %d deep", dibs.MaxDepth)
	}
	return nil
}

func object(field string, raw []byte, most int) error {
	if len(raw) > most {
		return invalid(field, "is %d bytes, the limit is %d", len(raw), most)
	}
	if err := validJSON(field, raw); err != nil {
		return err
	}
	kind := "a number"
	switch bytes.TrimLeft(raw, " \t\r\n")[0] {
	case '{':
		return nil
	case '[':
		kind = "an array"
	case '"':
		kind = "a string"
	case 't', 'f':
		kind = "a bool"
	case 'n':
		kind = "null"
	}
	return invalid(field, "must be a JSON object, and is %s", kind)
}

// Batch refuses n of what a call takes a batch of.
func Batch(field string, n int) error {
	if n > dibs.MaxBatch {
		return invalid(field, "are %d, the limit of one call is %d; split them", n, dibs.MaxBatch)
	}
	return nil
}

func invalid(field, reason string, args ...any) error {
	return &dibs.InvalidError{Field: field, Reason: fmt.Sprintf(reason, args...)}
}

// inBatch puts the job's place in a batch before the field that an InvalidError names.
func inBatch(err error, list string, i int) error {
	var e *dibs.InvalidError
	if errors.As(err, &e) {
		return &dibs.InvalidError{Field: fmt.Sprintf("%s[%d].%s", list, i, e.Field), Reason: e.Reason}
	}
	return err
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func clip(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
