package checks

import (
	"cmp"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/zone"
)

// unique checks what a job says about its unique key, and sets it in its row.
func unique(j *dibs.NewJob, r *Row) error {
	switch j.UniqueUntil {
	case "", dibs.UntilFinished, dibs.UntilClaimed:
	default:
		return invalid("unique_until", "must be %q or %q, got %q", dibs.UntilFinished, dibs.UntilClaimed, clip(string(j.UniqueUntil)))
	}
	switch j.IfHeld {
	case "", dibs.HeldKeep, dibs.HeldReplace, dibs.HeldPush:
	default:
		return invalid("if_held", "must be %q, %q or %q, got %q", dibs.HeldKeep, dibs.HeldReplace, dibs.HeldPush, clip(string(j.IfHeld)))
	}
	if r.UniqueKey == "" {
		for _, given := range []struct {
			field string
			is    bool
		}{
			{"unique_until", j.UniqueUntil != ""}, {"unique_for", j.UniqueFor != 0}, {"unique_window", j.UniqueWindow != ""}, {"if_held", j.IfHeld != ""}, {"delay_limit", j.DelayLimit != 0},
		} {
			if given.is {
				return invalid(given.field, "needs a unique_key")
			}
		}
		return nil
	}
	r.UniqueUntil, r.IfHeld, r.DelayLimit = cmp.Or(j.UniqueUntil, dibs.UntilFinished), cmp.Or(j.IfHeld, dibs.HeldKeep), j.DelayLimit
	if err := delayLimit(r); err != nil {
		return err
	}
	var err error
	r.Period, err = period(j)
	return err
}

// delayLimit checks how far a job may delay the job that holds its key.
func delayLimit(r *Row) error {
	if err := delay("delay_limit", r.DelayLimit); err != nil {
		return err
	}
	switch starts := r.Delay != 0 || !r.RunAt.IsZero(); {
	case r.IfHeld == dibs.HeldPush && !starts:
		return invalid("run_at", "is missing: if_held %q moves run_at on; give it or a delay", r.IfHeld)
	case r.IfHeld == dibs.HeldPush && r.DelayLimit == 0:
		return invalid("delay_limit", "is missing: without it, if_held %q could put a job off for ever", r.IfHeld)
	case r.DelayLimit != 0 && r.IfHeld == dibs.HeldKeep:
		return invalid("delay_limit", "needs if_held %q or %q", dibs.HeldReplace, dibs.HeldPush)
	case r.DelayLimit != 0 && !starts:
		return invalid("delay_limit", "needs run_at or delay")
	}
	return nil
}

// Period says for how long a job holds its unique key at least. The zero value: for no time.
type Period struct {
	length time.Duration
	unit   string // calendar unit in zone: hour, day, week or month
	zone   *time.Location
}

func period(j *dibs.NewJob) (Period, error) {
	switch {
	case j.UniqueFor != 0 && j.UniqueWindow != "":
		return Period{}, invalid("unique_window", "give either unique_for or unique_window, not both")
	case j.UniqueFor != 0:
		if err := delay("unique_for", j.UniqueFor); err != nil {
			return Period{}, err
		}
		if j.UniqueFor < time.Millisecond {
			return Period{}, invalid("unique_for", "must be at least 1ms, got %v", j.UniqueFor)
		}
		return Period{length: j.UniqueFor}, nil
	case j.UniqueWindow == "":
		return Period{}, nil
	}
	unit, name, named := strings.Cut(j.UniqueWindow, " in ")
	switch unit {
	case "hour", "day", "week", "month":
	default:
		return Period{}, invalid("unique_window", `must be "hour", "day", "week" or "month", and may name a time zone as in "day in Europe/Berlin", got %q`, clip(j.UniqueWindow))
	}
	if named && name == "" {
		return Period{}, invalid("unique_window", "names no time zone after %q", "in")
	}
	z, err := zone.Load("unique_window", name)
	return Period{unit: unit, zone: z}, err
}

// IsZero reports whether there is no period.
func (p Period) IsZero() bool { return p == Period{} }

// End is when the period of a job ends that is enqueued now. A window of the calendar ends when
// a clock in its zone first shows the next one; if the clock is put back over that moment, when
// it shows that again.
func (p Period) End(now time.Time) time.Time {
	if p.unit == "" {
		return now.Add(p.length)
	}
	next := p.next(zone.Shown(now.In(p.zone)))
	end := zone.First(next, p.zone).In(p.zone)
	if _, change := end.ZoneBounds(); !change.IsZero() && zone.Shown(change).Before(next) {
		_, offset := change.Zone()
		end = next.Add(-time.Duration(offset) * time.Second)
	}
	return end.UTC()
}

// next is when the calendar's next window begins, as a clock in the zone shows it.
func (p Period) next(shown time.Time) time.Time {
	y, m, d := shown.Date()
	switch p.unit {
	case "hour":
		return time.Date(y, m, d, shown.Hour()+1, 0, 0, 0, time.UTC)
	case "day":
		return time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
	case "week":
		sinceMonday := (int(shown.Weekday()) + 6) % 7
		return time.Date(y, m, d+7-sinceMonday, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
}

// Holder is a waiting job that holds a unique key, as other jobs with the key change it, one
// after the other.
type Holder struct {
	ID        int64
	CreatedAt time.Time
	RunAt     time.Time
	New       *Row // the new job that has replaced the holder; nil: none has
}

// Meet does to the holder what a job says, and returns the answer.
func (h *Holder) Meet(r *Row, now time.Time) dibs.Enqueued {
	e := dibs.Enqueued{ID: h.ID, Existing: true, Replaced: r.IfHeld == dibs.HeldReplace, Pushed: r.IfHeld == dibs.HeldPush}
	start, given := r.RunAt, true
	if start.IsZero() {
		start, given = now.Add(r.Delay), r.Delay != 0
	}
	if last := h.CreatedAt.Add(r.DelayLimit); r.DelayLimit != 0 && start.After(last) {
		start = last
	}
	switch {
	case e.Replaced:
		h.New = r
		if given || h.RunAt.After(start) {
			h.RunAt = later(start, now)
		}
	case e.Pushed && start.After(now): // a holder that is due already is not pushed: it would only lose its place
		h.RunAt = later(start, h.RunAt)
	}
	return e
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
