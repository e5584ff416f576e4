package rowstore

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/ticks"
)

func fromMicro(us int64) time.Time { return checks.Time(time.UnixMicro(us)) }

func micro(d time.Duration) int64 { return int64(d / time.Microsecond) }

// clock scans a time that may be null.
type clock struct{ to *time.Time }

func (c clock) Scan(v any) error {
	if us, ok := v.(int64); ok {
		*c.to = fromMicro(us)
	} else if v != nil {
		return fmt.Errorf("a time is stored as %T", v)
	}
	return nil
}

// text scans a text that may be null.
type text[T ~string] struct{ to *T }

func (t text[T]) Scan(v any) error {
	if s, ok := v.(string); ok {
		*t.to = T(s)
	} else if v != nil {
		return fmt.Errorf("a text is stored as %T", v)
	}
	return nil
}

// document scans JSON that may be null, byte for byte.
type document struct{ to *json.RawMessage }

func (d document) Scan(v any) error {
	if s, ok := v.(string); ok {
		*d.to = json.RawMessage(s)
	} else if v != nil {
		return fmt.Errorf("JSON is stored as %T", v)
	}
	return nil
}

// history scans a job's errors.
type history struct{ to *[]dibs.AttemptError }

func (h history) Scan(v any) error {
	var s string
	err := text[string]{&s}.Scan(v)
	*h.to = checks.ReadHistory([]byte(s))
	return err
}

type tokenColumn struct{ to *dibs.Token }

func (t tokenColumn) Scan(v any) error {
	if b, ok := v.([]byte); ok && len(b) == len(t.to) {
		copy(t.to[:], b)
	} else if v != nil {
		return fmt.Errorf("a token is stored as %T", v)
	}
	return nil
}

// scanClaimed reads a row of claim.sql or resume.sql.
func scanClaimed(rows *sql.Rows) (*dibs.RawJob, error) {
	j := &dibs.RawJob{State: dibs.Running}
	err := rows.Scan(&j.ID, text[string]{&j.Kind}, document{&j.Payload}, document{&j.Metadata}, &j.Priority, clock{&j.RunAt},
		&j.Attempt, &j.Excused, &j.MaxAttempts, text[string]{&j.Group}, text[string]{&j.UniqueKey},
		text[dibs.UniqueUntil]{&j.UniqueUntil}, &j.CancelRequested, clock{&j.CreatedAt}, history{&j.Errors})
	checks.Claimed(j)
	ticks.Read(j)
	return j, err
}

// scanJob reads a row of get.sql or a list.
func scanJob(rows *sql.Rows, now time.Time) (*dibs.RawJob, error) {
	j := &dibs.RawJob{}
	var progress string
	err := rows.Scan(&j.ID, text[string]{&j.Queue}, text[string]{&j.Kind}, text[dibs.State]{&j.State},
		document{&j.Payload}, document{&j.Metadata}, &j.Priority, clock{&j.RunAt}, &j.Attempt, &j.Excused, &j.MaxAttempts,
		text[string]{&j.Group}, &j.GroupLimit, text[string]{&j.UniqueKey}, text[dibs.UniqueUntil]{&j.UniqueUntil},
		text[string]{&j.Worker}, tokenColumn{&j.Token}, clock{&j.LeaseUntil}, &j.CancelRequested,
		clock{&j.CreatedAt}, clock{&j.ClaimedAt}, clock{&j.FinishedAt}, history{&j.Errors}, document{&j.Result}, text[string]{&progress}, clock{&j.HeldUntil}, clock{&j.UniqueFreeAt})
	if j.HeldUntil.Before(now) { // it is written when jobs start, not when they may
		j.HeldUntil = time.Time{}
	}
	if j.UniqueFreeAt.Before(now) {
		j.UniqueFreeAt = time.Time{}
	}
	checks.Legible(j)
	ticks.Read(j)
	checks.ReadProgress(j, []byte(progress))
	return j, err
}

// scanQueue reads a row of queue.sql or queues.sql.
func scanQueue(rows *sql.Rows, groupRates *bool) (dibs.Queue, error) {
	var q dibs.Queue
	var lease, base, most, completed, dead, cancelled, per, timeout, groupPer int64
	err := rows.Scan(&q.Name, &q.Paused, &q.Concurrency, &q.GroupLimit, &q.Strict, text[dibs.Order]{&q.Order}, &lease, &q.MaxAttempts,
		&base, &q.Backoff.Factor, &most, &q.Backoff.Jitter, &completed, &dead, &cancelled, &q.PayloadLimit,
		&q.Rate.N, &per, &q.Rate.Burst, &timeout, &q.GroupRate.N, &groupPer, &q.GroupRate.Burst, groupRates)
	q.Rate.Per, q.GroupRate.Per, q.JobTimeout = fromMicroDuration(per), fromMicroDuration(groupPer), fromMicroDuration(timeout)
	q.Lease, q.Backoff.Base, q.Backoff.Max = fromMicroDuration(lease), fromMicroDuration(base), fromMicroDuration(most)
	q.KeepCompleted, q.KeepDead, q.KeepCancelled = fromMicroDuration(completed), fromMicroDuration(dead), fromMicroDuration(cancelled)
	return q, err
}

func fromMicroDuration(us int64) time.Duration { return checks.Micros(us) }

// span is the time from one time to another in microseconds: 28 years at most, and 0 if they are in
// the wrong order.
func span(from, to int64) int64 {
	if from >= to {
		return 0
	}
	return int64(min(uint64(to)-uint64(from), 9e14)) // the difference of any two fits
}

// plus adds spans, or sums of them. Sums end at 28,000 years, here as in the statements, so that two
// of them always fit into 64 bits.
func plus(a, b int64) int64 { return min(a+b, 9e17) }
