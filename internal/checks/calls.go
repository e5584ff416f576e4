package checks

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
)

// maxKinds is how many kinds or queues one call can name.
const maxKinds = 1000

// Claim checks a request and fills in its default queue.
func Claim(r *dibs.ClaimRequest) error {
	if r.Queue == "" {
		r.Queue = dibs.DefaultQueue
	}
	if r.N < 1 || r.N > dibs.MaxBatch {
		return invalid("n", "must be 1 to %d, got %d", dibs.MaxBatch, r.N)
	}
	if r.Ahead < 0 || r.Ahead > r.N {
		return invalid("ahead", "must be 0 to n, %d, got %d", r.N, r.Ahead)
	}
	return first(listed("kinds", r.Kinds), Name("queue", r.Queue), Name("worker", r.Worker), lease(r.Lease, true))
}

// Due checks a request for the queues that have due jobs.
func Due(queues, kinds []string) error {
	return first(listed("queues", queues), listed("kinds", kinds))
}

// Listed refuses n kinds or queues.
func Listed(field string, n int) error {
	if n > maxKinds {
		return invalid(field, "must be at most %d, got %d", maxKinds, n)
	}
	return nil
}

// listed checks a list of names.
func listed(field string, list []string) error {
	if err := Listed(field, len(list)); err != nil {
		return err
	}
	for i, name := range list {
		if err := Name(fmt.Sprintf("%s[%d]", field, i), name); err != nil {
			return err
		}
	}
	return nil
}

// Resume checks a request and fills in its default queue.
func Resume(r *dibs.ClaimRequest) error {
	if r.Queue == "" {
		r.Queue = dibs.DefaultQueue
	}
	return first(Name("queue", r.Queue), Name("worker", r.Worker), lease(r.Lease, true))
}

// Workers checks entries for the register of workers.
func Workers(list []dibs.WorkerInfo) error {
	if err := Batch("workers", len(list)); err != nil {
		return err
	}
	seen := make(map[dibs.Token]bool, len(list))
	for i := range list {
		field := fmt.Sprintf("workers[%d]", i)
		if err := worker(field, &list[i]); err != nil {
			return err
		}
		if seen[list[i].ID] {
			return invalid(field+".id", "is in the list twice")
		}
		seen[list[i].ID] = true
	}
	return nil
}

func worker(field string, w *dibs.WorkerInfo) error {
	for _, list := range []struct {
		field string
		names []string
	}{{field + ".queues", w.Queues}, {field + ".kinds", w.Kinds}} {
		if err := listed(list.field, list.names); err != nil {
			return err
		}
	}
	switch {
	case w.ID.IsZero():
		return invalid(field+".id", "is missing")
	case len(w.Queues) == 0:
		return invalid(field+".queues", "is missing")
	case w.PID < 0 || w.PID > math.MaxInt32:
		return invalid(field+".pid", "must be 0 to %d, got %d", math.MaxInt32, w.PID)
	case w.Concurrency < 0 || w.Concurrency > dibs.MaxBatch:
		return invalid(field+".concurrency", "must be 0 to %d, got %d", dibs.MaxBatch, w.Concurrency)
	case w.State != dibs.WorkerWorking && w.State != dibs.WorkerStopping && w.State != dibs.WorkerStopped:
		return invalid(field+".state", "must be %s, %s or %s, got %q", dibs.WorkerWorking, dibs.WorkerStopping, dibs.WorkerStopped, clip(w.State))
	}
	return first(Name(field+".name", w.Name), text(field+".host", w.Host, dibs.MaxName), text(field+".version", w.Version, dibs.MaxName))
}

// Extend checks leases and their new length, and returns the leases with texts of progress
// made fit to store, as Outcomes does.
func Extend(leases []dibs.Lease, d time.Duration) ([]dibs.Lease, error) {
	if err := Batch("leases", len(leases)); err != nil {
		return nil, err
	}
	seen := make(map[int64]bool, len(leases))
	fit := leases
	for i, l := range leases {
		err := held(l, seen)
		if p := l.Progress; p != nil && err == nil {
			if &fit[0] == &leases[0] {
				fit = slices.Clone(leases)
			}
			fit[i].Progress, err = progress(*p)
		}
		if err != nil {
			return nil, inBatch(err, "leases", i)
		}
	}
	return fit, lease(d, false)
}

func progress(p dibs.Progress) (*dibs.Progress, error) {
	switch {
	case p.Done < 0:
		return nil, invalid("progress.done", "must not be negative, got %d", p.Done)
	case p.Total < 0:
		return nil, invalid("progress.total", "must not be negative, got %d", p.Total)
	}
	p.Text, p.At = storable(p.Text, dibs.MaxProgressText), time.Time{}
	return &p, nil
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
	if err := Batch("outcomes", len(outcomes)); err != nil {
		return nil, err
	}
	seen := make(map[int64]bool, len(outcomes))
	out := make([]dibs.Outcome, len(outcomes))
	added := 0
	for i, o := range outcomes {
		if err := outcome(&o, seen); err != nil {
			return nil, inBatch(err, "outcomes", i)
		}
		if added += len(o.Add); added > dibs.MaxBatch {
			return nil, inBatch(invalid("add", "the outcomes of one call add more than %d jobs", dibs.MaxBatch), "outcomes", i)
		}
		out[i] = o
	}
	return out, nil
}

// Unfinished returns what is left of a Finish as an error, or nil if that names no job.
func Unfinished(left dibs.FinishError) error {
	if len(left.Unwritten)+len(left.Lost) == 0 {
		return nil
	}
	if len(left.Unwritten) == 0 {
		left.Err = nil
	}
	return &left
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
		if err := delay("delay", *o.Delay); err != nil {
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
	return adds(o)
}

// ErrorText makes a text fit for the error history.
func ErrorText(s string) string { return storable(s, dibs.MaxErrorText) }

// storable makes a text that every database can store: valid UTF-8 without NUL bytes, cut to a length.
func storable(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) <= most {
		return s
	}
	const cut = "… (cut)"
	end := most - len(cut)
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

// ReadHistory reads a job's error history as a store keeps it. A damaged one, as only SQL by
// hand can leave it, becomes a single entry that quotes it, so that one job cannot make the
// reading of a page fail.
func ReadHistory(text []byte) []dibs.AttemptError {
	if len(text) == 0 {
		return nil
	}
	var h []dibs.AttemptError
	if err := json.Unmarshal(text, &h); err != nil {
		return []dibs.AttemptError{{Error: ErrorText("the kept errors are damaged: " + string(text))}}
	}
	for i := range h {
		for _, t := range []*time.Time{&h[i].RunAt, &h[i].ClaimedAt, &h[i].At} {
			*t = t.UTC()
		}
	}
	return h
}

// ReadProgress sets a job's progress from what the store keeps: JSON with the attempt that it
// is of. What an earlier attempt has left, or is damaged, is none.
func ReadProgress(j *dibs.RawJob, text []byte) {
	var kept struct {
		dibs.Progress
		Attempt int `json:"attempt"`
	}
	if j.State != dibs.Running || len(text) == 0 || json.Unmarshal(text, &kept) != nil || kept.Attempt != j.Attempt {
		return
	}
	kept.At = kept.At.UTC()
	j.Progress = &kept.Progress
}
