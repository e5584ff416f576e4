// Package checks refuses bad input before a store does anything with it, in the
// same words for every database.
package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
)

// Row is a NewJob with its defaults filled in, ready to be stored.
type Row struct {
	Queue, Kind string
	Payload     []byte // valid JSON in UTF-8
	Metadata    []byte // nil or a JSON object
	Priority    int16
	Delay       time.Duration // used when RunAt is zero
	RunAt       time.Time
	MaxAttempts int // 0: the queue's
	Group       string
	UniqueKey   string
	UniqueUntil dibs.UniqueUntil // empty without a key
}

// Jobs checks a batch for Enqueue. limit gives a queue's payload limit in bytes.
func Jobs(jobs []dibs.NewJob, limit func(queue string) (int, error)) ([]Row, error) {
	if err := batch("jobs", len(jobs)); err != nil {
		return nil, err
	}
	rows := make([]Row, len(jobs))
	for i := range jobs {
		r, err := row(&jobs[i])
		if err != nil {
			return nil, at(err, "jobs", i)
		}
		most, err := limit(r.Queue)
		if err != nil {
			return nil, err
		}
		if len(r.Payload) > most {
			return nil, at(invalid("payload", "is %d bytes, the limit of queue %q is %d", len(r.Payload), r.Queue, most), "jobs", i)
		}
		rows[i] = r
	}
	return rows, nil
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
		optional("group", r.Group),
		text("unique_key", r.UniqueKey, dibs.MaxUniqueKey),
		attempts(r.MaxAttempts),
		start(j),
	); err != nil {
		return r, err
	}
	if j.Priority != nil {
		if err := Priority(*j.Priority); err != nil {
			return r, err
		}
		r.Priority = int16(*j.Priority)
	}
	switch j.UniqueUntil {
	case "", dibs.UntilFinished, dibs.UntilClaimed:
	default:
		return r, invalid("unique_until", "must be %q or %q, got %q", dibs.UntilFinished, dibs.UntilClaimed, clip(string(j.UniqueUntil)))
	}
	if r.UniqueKey != "" {
		if r.UniqueUntil = j.UniqueUntil; r.UniqueUntil == "" {
			r.UniqueUntil = dibs.UntilFinished
		}
	} else if j.UniqueUntil != "" {
		return r, invalid("unique_until", "needs a unique_key")
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
	return r, object("metadata", r.Metadata, dibs.MaxMetadata)
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
		return raw, nil
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
	if err := Delay("delay", j.Delay); err != nil {
		return err
	}
	return RunAt(j.RunAt)
}

// RunAt checks a start time; zero is fine.
func RunAt(t time.Time) error {
	if !t.IsZero() && (t.Year() < 1 || t.Year() > 9999) {
		return invalid("run_at", "must lie in the years 1 to 9999, got year %d", t.Year())
	}
	return nil
}

// Delay checks a delay of a start, retry or snooze.
func Delay(field string, d time.Duration) error {
	if d < 0 {
		return invalid(field, "must not be negative, got %v", d)
	}
	if d > dibs.MaxDelay {
		return invalid(field, "must be at most %v, got %v", dibs.MaxDelay, d)
	}
	return nil
}

// Priority checks a job's priority.
func Priority(p int) error {
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

// Claim checks a request and fills in its default queue.
func Claim(r *dibs.ClaimRequest) error {
	if r.Queue == "" {
		r.Queue = dibs.DefaultQueue
	}
	if r.N < 1 || r.N > dibs.MaxBatch {
		return invalid("n", "must be 1 to %d, got %d", dibs.MaxBatch, r.N)
	}
	if len(r.Kinds) > 1000 {
		return invalid("kinds", "must be at most 1000, got %d", len(r.Kinds))
	}
	for i, k := range r.Kinds {
		if err := Name(fmt.Sprintf("kinds[%d]", i), k); err != nil {
			return err
		}
	}
	return first(Name("queue", r.Queue), Name("worker", r.Worker), lease(r.Lease, true))
}

// Resume checks a request and fills in its default queue.
func Resume(r *dibs.ResumeRequest) error {
	if r.Queue == "" {
		r.Queue = dibs.DefaultQueue
	}
	return first(Name("queue", r.Queue), Name("worker", r.Worker), lease(r.Lease, true))
}

// Extend checks leases and their new length.
func Extend(leases []dibs.Lease, d time.Duration) error {
	if err := batch("leases", len(leases)); err != nil {
		return err
	}
	seen := make(map[int64]bool, len(leases))
	for i, l := range leases {
		if err := held(l, seen); err != nil {
			return at(err, "leases", i)
		}
	}
	return lease(d, false)
}

func held(l dibs.Lease, seen map[int64]bool) error {
	if l.ID < 1 {
		return invalid("id", "must be a job's id, got %d", l.ID)
	}
	if l.Token.IsZero() {
		return invalid("token", "is missing; use the one that the claim gave")
	}
	if seen[l.ID] {
		return invalid("id", "%d is named twice in one call", l.ID)
	}
	seen[l.ID] = true
	return nil
}

func lease(d time.Duration, zero bool) error {
	if zero && d == 0 {
		return nil
	}
	if d < dibs.MinLease || d > dibs.MaxLease {
		return invalid("lease", "must be %v to %v, got %v", dibs.MinLease, dibs.MaxLease, d)
	}
	return nil
}

// Outcomes checks a batch for Finish and returns it with error texts made fit to
// store: valid UTF-8 without NUL bytes, cut to MaxErrorText.
func Outcomes(outcomes []dibs.Outcome) ([]dibs.Outcome, error) {
	if err := batch("outcomes", len(outcomes)); err != nil {
		return nil, err
	}
	seen := make(map[int64]bool, len(outcomes))
	out := make([]dibs.Outcome, len(outcomes))
	for i, o := range outcomes {
		if err := outcome(&o, seen); err != nil {
			return nil, at(err, "outcomes", i)
		}
		out[i] = o
	}
	return out, nil
}

func outcome(o *dibs.Outcome, seen map[int64]bool) error {
	if err := held(dibs.Lease{ID: o.ID, Token: o.Token}, seen); err != nil {
		return err
	}
	switch o.Ending {
	case dibs.EndCompleted, dibs.EndRetry, dibs.EndSnooze, dibs.EndRelease, dibs.EndDead, dibs.EndCancelled:
	default:
		return invalid("ending", "must be completed, retry, snooze, release, dead or cancelled, got %q", clip(string(o.Ending)))
	}
	if o.Delay != nil {
		if o.Ending != dibs.EndRetry && o.Ending != dibs.EndSnooze {
			return invalid("delay", "goes with retry or snooze only, not with %s", o.Ending)
		}
		if err := Delay("delay", *o.Delay); err != nil {
			return err
		}
	} else if o.Ending == dibs.EndSnooze {
		return invalid("delay", "is required for snooze")
	}
	if len(o.Result) == 0 {
		o.Result = nil
	} else if o.Ending != dibs.EndCompleted {
		return invalid("result", "goes with completed only, not with %s", o.Ending)
	} else if len(o.Result) > dibs.MaxResult {
		return invalid("result", "is %d bytes, the limit is %d", len(o.Result), dibs.MaxResult)
	} else if err := validJSON("result", o.Result); err != nil {
		return err
	}
	o.Error = ErrorText(o.Error)
	return nil
}

// ErrorText makes a text fit for the error history.
func ErrorText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) <= dibs.MaxErrorText {
		return s
	}
	const cut = "… (cut)"
	end := dibs.MaxErrorText - len(cut)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cut
}

// History appends to a job's error history and drops what is over its limit.
func History(h []dibs.AttemptError, e dibs.AttemptError) []dibs.AttemptError {
	h = append(h, e)
	if len(h) > dibs.MaxErrors {
		h = h[len(h)-dibs.MaxErrors:]
	}
	return h
}

// IDs checks a list of job ids.
func IDs(ids []int64) error {
	if err := batch("ids", len(ids)); err != nil {
		return err
	}
	for i, id := range ids {
		if id < 1 {
			return invalid(fmt.Sprintf("ids[%d]", i), "must be a job's id, got %d", id)
		}
	}
	return nil
}

// Filter checks a filter and fills in its default limit.
func Filter(f *dibs.Filter) error {
	switch f.State {
	case "", dibs.Waiting, dibs.Blocked, dibs.Running, dibs.Completed, dibs.Dead, dibs.Cancelled:
	default:
		return invalid("state", "must be waiting, blocked, running, completed, dead or cancelled, got %q", clip(string(f.State)))
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	if f.Limit < 1 || f.Limit > 1000 {
		return invalid("limit", "must be 1 to 1000, got %d", f.Limit)
	}
	return first(optional("queue", f.Queue), optional("kind", f.Kind), optional("group", f.Group))
}

// Edit checks a change to waiting jobs.
func Edit(ids []int64, e dibs.Edit) error {
	if e.Priority == nil && e.RunAt == nil {
		return invalid("edit", "changes nothing; give a priority or a run_at")
	}
	if e.Priority != nil {
		if err := Priority(*e.Priority); err != nil {
			return err
		}
	}
	if e.RunAt != nil {
		if err := RunAt(*e.RunAt); err != nil {
			return err
		}
	}
	return IDs(ids)
}

// Prune checks what to delete.
func Prune(queue string, state dibs.State, olderThan time.Duration) error {
	if state != "" && !state.Final() {
		return invalid("state", "only completed, dead or cancelled jobs can be pruned, got %q", clip(string(state)))
	}
	if olderThan < 0 {
		return invalid("older_than", "must not be negative, got %v", olderThan)
	}
	return optional("queue", queue)
}

// Change checks new settings for a queue and applies them to q.
func Change(q *dibs.Queue, c dibs.QueueChange) error {
	if err := Name("queue", q.Name); err != nil {
		return err
	}
	set(&q.Paused, c.Paused)
	set(&q.Concurrency, c.Concurrency)
	set(&q.GroupLimit, c.GroupLimit)
	set(&q.Strict, c.Strict)
	set(&q.Order, c.Order)
	set(&q.Lease, c.Lease)
	set(&q.MaxAttempts, c.MaxAttempts)
	set(&q.Backoff, c.Backoff)
	set(&q.KeepCompleted, c.KeepCompleted)
	set(&q.KeepDead, c.KeepDead)
	set(&q.KeepCancelled, c.KeepCancelled)
	set(&q.PayloadLimit, c.PayloadLimit)
	return settings(q)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func settings(q *dibs.Queue) error {
	b := q.Backoff
	switch {
	case q.Concurrency < 0 || q.Concurrency > 1_000_000:
		return invalid("concurrency", "must be 0 (no limit) to 1000000, got %d", q.Concurrency)
	case q.MaxAttempts < 1 || q.MaxAttempts > 1_000_000:
		return invalid("max_attempts", "must be 1 to 1000000, got %d", q.MaxAttempts)
	case q.Order != dibs.FIFO && q.Order != dibs.LIFO && q.Order != dibs.AnyOrder:
		return invalid("order", "must be fifo, lifo or any, got %q", clip(string(q.Order)))
	case b.Base < time.Millisecond || b.Base > dibs.MaxDelay:
		return invalid("backoff.base", "must be 1ms to %v, got %v", dibs.MaxDelay, b.Base)
	case b.Max < b.Base || b.Max > dibs.MaxDelay:
		return invalid("backoff.max", "must be at least the base (%v) and at most %v, got %v", b.Base, dibs.MaxDelay, b.Max)
	case !(b.Factor >= 1 && b.Factor <= 1000):
		return invalid("backoff.factor", "must be 1 to 1000, got %v", b.Factor)
	case !(b.Jitter >= 0 && b.Jitter <= 1):
		return invalid("backoff.jitter", "must be 0 to 1, got %v", b.Jitter)
	case q.PayloadLimit < 2 || q.PayloadLimit > dibs.MaxPayloadLimit:
		return invalid("payload_limit", "must be 2 to %d bytes, got %d", dibs.MaxPayloadLimit, q.PayloadLimit)
	}
	return first(
		GroupLimit("group_limit", q.GroupLimit, 1),
		lease(q.Lease, false),
		Delay("keep_completed", q.KeepCompleted),
		Delay("keep_dead", q.KeepDead),
		Delay("keep_cancelled", q.KeepCancelled),
	)
}

// GroupLimit checks a group's limit against its lowest allowed value.
func GroupLimit(field string, n, least int) error {
	if n < least || n > 1_000_000 {
		return invalid(field, "must be %d to 1000000, got %d", least, n)
	}
	return nil
}

// Name checks a queue, kind, group or worker name that must be there.
func Name(field, s string) error {
	if s == "" {
		return invalid(field, "is missing")
	}
	return optional(field, s)
}

func optional(field, s string) error { return text(field, s, dibs.MaxName) }

func text(field, s string, most int) error {
	if len(s) > most {
		return invalid(field, "is %d bytes, the limit is %d", len(s), most)
	}
	if !utf8.ValidString(s) {
		return invalid(field, "is not valid UTF-8: %q", clip(s))
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			return invalid(field, "must not contain control characters, has %q in %q", r, clip(s))
		}
	}
	return nil
}

func validJSON(field string, raw []byte) error {
	if !utf8.Valid(raw) {
		return invalid(field, "is not valid UTF-8")
	}
	if json.Valid(raw) {
		return nil
	}
	var v any
	err := json.Unmarshal(raw, &v)
	return invalid(field, "is not valid JSON: %v: %q", err, clip(string(raw)))
}

func object(field string, raw []byte, most int) error {
	if len(raw) > most {
		return invalid(field, "is %d bytes, the limit is %d", len(raw), most)
	}
	if err := validJSON(field, raw); err != nil {
		return err
	}
	if bytes.TrimLeft(raw, " \t\r\n")[0] != '{' {
		return invalid(field, "must be a JSON object, got %q", clip(string(raw)))
	}
	return nil
}

func batch(field string, n int) error {
	if n > dibs.MaxBatch {
		return invalid(field, "are %d, the limit of one call is %d; split them", n, dibs.MaxBatch)
	}
	return nil
}

func invalid(field, reason string, args ...any) error {
	return &dibs.InvalidError{Field: field, Reason: fmt.Sprintf(reason, args...)}
}

// at puts the place in a batch before the field of an InvalidError.
func at(err error, list string, i int) error {
	if e, ok := err.(*dibs.InvalidError); ok {
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
