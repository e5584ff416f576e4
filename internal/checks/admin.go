package checks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// IDs checks a list of job ids.
func IDs(ids []int64) error {
	if err := Batch("ids", len(ids)); err != nil {
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
func Filter(f *admin.Filter) error {
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
	if f.UniqueKey != "" && *f != (admin.Filter{Queue: f.Queue, UniqueKey: f.UniqueKey, Limit: f.Limit}) {
		return invalid("unique_key", "goes with a queue and no other filter: one job holds it, or none")
	}
	if f.UniqueKey != "" && f.Queue == "" {
		return invalid("queue", "is missing: a unique key is one of a queue")
	}
	if !f.State.Final() && !(f.FinishedSince.IsZero() && f.FinishedBefore.IsZero()) {
		return invalid("state", "must be completed, dead or cancelled to select jobs by the time of their end, got %q", f.State)
	}
	if f.Scheduled && f.State != dibs.Waiting {
		return invalid("state", "must be waiting to select jobs whose time has not come, got %q", f.State)
	}
	return first(
		optionalName("queue", f.Queue), optionalName("kind", f.Kind), optionalName("group", f.Group), optionalName("worker", f.Worker), text("unique_key", f.UniqueKey, dibs.MaxUniqueKey),
		part("error", f.Error), part("payload", f.Payload), listTime("finished_since", f.FinishedSince), listTime("finished_before", f.FinishedBefore),
	)
}

// part checks a text for which a list is searched. It may contain line ends and the like, as the text searched may.
func part(field, s string) error {
	const most = 1 << 10
	switch {
	case len(s) > most:
		return invalid(field, "is %d bytes, the limit is %d", len(s), most)
	case !utf8.ValidString(s):
		return invalid(field, "is not valid UTF-8: %q", clip(s))
	case strings.ContainsRune(s, 0):
		return invalid(field, "must not contain the character 0, which no database keeps")
	}
	return nil
}

func listTime(field string, t time.Time) error {
	if t.Before(firstTime) || t.After(lastTime) {
		return invalid(field, "must be in the years 1 to 9999, got %v", t)
	}
	return nil
}

// Looked is how many jobs a List looks at, at most, and whether it may look at more than it lists.
func Looked(f admin.Filter) (most int, narrowed bool) {
	most = 100_000
	if f.Payload != "" {
		most = 10_000
	}
	f.Queue, f.State, f.Limit, f.After, f.FinishedSince, f.FinishedBefore = "", "", 0, "", time.Time{}, time.Time{}
	return most, f != admin.Filter{}
}

// Failures checks what to list, leaves out queues that are named twice, and fills in the default limit. The
// jobs listed died before a time, or at it if their ids are smaller than an id.
func Failures(f *admin.FailureFilter) (before time.Time, id int64, err error) {
	if n := len(f.Queues); n < 1 || n > admin.MaxFailures {
		return before, 0, invalid("queues", "must be 1 to %d, got %d", admin.MaxFailures, n)
	}
	for i, name := range f.Queues {
		if err := Name(fmt.Sprintf("queues[%d]", i), name); err != nil {
			return before, 0, err
		}
	}
	f.Queues = slices.Compact(slices.Sorted(slices.Values(f.Queues)))
	most := admin.MaxFailures / len(f.Queues)
	if f.Limit == 0 {
		f.Limit = most
	}
	if f.Limit < 1 || f.Limit > most {
		return before, 0, invalid("limit", "must be 1 to %d for %d queues, got %d", most, len(f.Queues), f.Limit)
	}
	if f.Before == nil {
		return lastTime, math.MaxInt64, nil
	}
	return f.Before.At, f.Before.ID, listTime("before", f.Before.At)
}

// LastDiedFirst puts failures into the order in which Admin.Failures lists them.
func LastDiedFirst(list []admin.Failure) {
	slices.SortFunc(list, func(a, b admin.Failure) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID))
	})
}

// CountedBacklog is how many jobs of a group Admin.Backlogs counts at most.
const CountedBacklog = 1000

// Backlogs checks of which groups to count the jobs.
func Backlogs(queue, after string) error {
	return first(Name("queue", queue), optionalName("after", after))
}

// Until checks when jobs have ended at the latest, if that matters.
func Until(t time.Time) error { return listTime("until", t) }

// Edit checks a change to waiting jobs.
func Edit(ids []int64, e admin.Edit) error {
	if e.Priority == nil && e.RunAt == nil {
		return invalid("edit", "changes nothing; give a priority or a run_at")
	}
	if e.Priority != nil {
		if err := priority(*e.Priority); err != nil {
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
	return optionalName("queue", queue)
}

// Changed has f change a queue's settings, and checks the result.
func Changed(q dibs.Queue, f func(*dibs.Queue) error) (dibs.Queue, error) {
	name := q.Name
	if err := f(&q); err != nil {
		return q, err
	}
	q.Name = name
	return q, settings(&q)
}

// settings checks the settings of a queue, and makes of them what databases keep: whole microseconds, and no negative zero.
func settings(q *dibs.Queue) error {
	if err := allowed(q); err != nil {
		return err
	}
	for _, d := range []*time.Duration{&q.Lease, &q.JobTimeout, &q.Backoff.Base, &q.Backoff.Max, &q.KeepCompleted, &q.KeepDead, &q.KeepCancelled, &q.Rate.Per, &q.GroupRate.Per} {
		*d = d.Truncate(time.Microsecond)
	}
	q.Backoff.Jitter = math.Abs(q.Backoff.Jitter)
	return nil
}

func allowed(q *dibs.Queue) error {
	b := q.Backoff
	switch {
	case q.JobTimeout > 0 && q.JobTimeout < time.Microsecond:
		return invalid("job_timeout", "must be 0 (no limit) or at least 1µs, got %v", q.JobTimeout)
	case q.Concurrency < 0 || q.Concurrency > 1_000_000:
		return invalid("concurrency", "must be 0 (no limit) to 1000000, got %d", q.Concurrency)
	case q.MaxAttempts < 1 || q.MaxAttempts > 1_000_000:
		return invalid("max_attempts", "must be 1 to 1000000, got %d", q.MaxAttempts)
	case q.Order != dibs.FIFO && q.Order != dibs.LIFO && q.Order != dibs.Fair:
		return invalid("order", "must be fifo, lifo or fair, got %q", clip(string(q.Order)))
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
		rate("rate", q.Rate),
		rate("group_rate", q.GroupRate),
		groupLimit("group_limit", q.GroupLimit, 1),
		lease(q.Lease, false),
		delay("job_timeout", q.JobTimeout),
		delay("keep_completed", q.KeepCompleted),
		delay("keep_dead", q.KeepDead),
		delay("keep_cancelled", q.KeepCancelled),
	)
}

// Group checks the name of a group and of its queue.
func Group(queue, group string) error { return first(Name("queue", queue), Name("group", group)) }

// ChangedGroup has f change a group's settings, and checks the result.
func ChangedGroup(g dibs.Group, f func(*dibs.Group) error) (dibs.Group, error) {
	name, held := g.Name, g.HeldUntil
	if err := f(&g); err != nil {
		return g, err
	}
	g.Name, g.HeldUntil = name, held
	return g, first(groupLimit("limit", g.Limit, 0), rate("rate", g.Rate))
}

// GroupOf is a group among those that have settings of their own.
func GroupOf(list []dibs.Group, name string) dibs.Group {
	for _, g := range list {
		if g.Name == name {
			return dibs.Group{Name: name, Limit: g.Limit, Rate: g.Rate}
		}
	}
	return dibs.Group{Name: name}
}

// groupLimit checks a group's limit against its lowest allowed value.
func groupLimit(field string, n, least int) error {
	if n < least || n > 1_000_000 {
		return invalid(field, "must be %d to 1000000, got %d", least, n)
	}
	return nil
}

// These are the limits of a rate. Its bucket (package bucket) counts in nanoseconds.
const (
	leastPer   = time.Second
	mostPer    = 31 * 24 * time.Hour
	mostStarts = 1_000_000_000             // most starts in one period, and largest burst
	mostBurst  = 10 * 365 * 24 * time.Hour // longest time in which a burst is saved up
)

// rate checks a rate in a field.
func rate(field string, r dibs.Rate) error {
	switch {
	case r == dibs.Rate{}:
		return nil
	case r.N < 0:
		return invalid(field+".n", "must be 0 (no limit) or more, got %d", r.N)
	case r.N == 0 && r.Per == 0:
		return invalid(field+".burst", "needs a rate; without one there is no limit")
	case r.N == 0:
		return invalid(field+".n", "is 0, which means no limit; leave per and burst out too, or give a rate: how many jobs may start, in what time")
	case r.Per < leastPer || r.Per > mostPer:
		return invalid(field+".per", "must be %v to 31 days, got %v", leastPer, r.Per)
	case int64(r.N) > r.Per.Microseconds():
		return invalid(field+".n", "must be at most one per microsecond, got %d in %v", r.N, r.Per)
	case r.N > mostStarts:
		return invalid(field+".n", "must be at most %d, got %d; give a shorter period", mostStarts, r.N)
	case r.Burst < 0 || r.Burst > mostStarts:
		return invalid(field+".burst", "must be 0 to %d, got %d", mostStarts, r.Burst)
	case float64(r.Burst)*float64(r.Per)/float64(r.N) > float64(mostBurst):
		return invalid(field+".burst", "must be saved up within ten years at this rate, got %d", r.Burst)
	}
	return nil
}

// Mended are the lines in which a repair says how many jobs it has mended that would have waited or run for ever.
func Mended(n int) []string {
	if n == 0 {
		return []string{}
	}
	return []string{fmt.Sprintf("%d times a job was found in a state in which nobody would ever claim it or end its lease", n)}
}
