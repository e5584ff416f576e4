package ticks

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
)

// lateFor is how late a tick may be without being missed.
const lateFor = 10 * time.Second

// dueTicks lists the ticks of a schedule that get a job at the time now; first is the next tick
// that it had. following is its next tick then, or zero.
func dueTicks(spec *Spec, s *dibs.Schedule, first, now time.Time) (due []time.Time, following time.Time) {
	following = spec.Next(now)
	late := now.Add(-lateFor)
	most := int(lateFor/dibs.MinEvery) + 1
	missed := first.Before(late)
	if missed && s.Missed == dibs.MissedAll {
		most = s.MissedLimit
	}
	due = spec.latest(first, now, most)
	switch {
	case !missed || s.Missed == dibs.MissedAll || len(due) == 0:
	case s.Missed == dibs.MissedSkip:
		for len(due) > 0 && due[0].Before(late) {
			due = due[1:]
		}
	default:
		due = due[len(due)-1:]
	}
	if s.SkipOverlap && len(due) > 1 { // the others' jobs would wait beside the last one's
		due = due[len(due)-1:]
	}
	return due, following
}

// latest lists the last n ticks from a time to another one, both included. It looks back
// further and further, so that the ticks of a year need not be counted.
func (s *Spec) latest(from, to time.Time, n int) []time.Time {
	for back := time.Minute; ; back *= 8 {
		at, whole := to.Add(-back), false
		if !at.After(from) {
			at, whole = from.Add(-1), true
		}
		var list []time.Time
		for at = s.Next(at); !at.IsZero() && !at.After(to); at = s.Next(at) {
			if len(list) > 0 && !at.After(list[len(list)-1]) {
				return nil // it would go on for ever
			}
			list = append(list, at)
		}
		if whole || len(list) >= n {
			return list[max(0, len(list)-n):]
		}
	}
}

// Budget is what one transaction may still enqueue. The first tick always fits.
type Budget struct {
	Jobs, Bytes int
	used        bool
}

// take returns those of the due ticks that fit; the others are due at the next look. rest is
// the first of them, or zero.
func (b *Budget) take(s *dibs.Schedule, due []time.Time) (fit []time.Time, rest time.Time) {
	payload, _ := s.Payload.(json.RawMessage) // check has made it one
	for i, t := range due {
		if b.used && (b.Jobs < 1 || b.Bytes < len(payload)) {
			return due[:i], t
		}
		b.used, b.Jobs, b.Bytes = true, b.Jobs-1, b.Bytes-len(payload)
	}
	return due, time.Time{}
}

// Ticks returns those ticks of a schedule that have come, get a job, and fit, and the tick at which the schedule is due next. busy: its
// last job has not ended. more reports whether some that have come are left. It fails for a schedule that this program cannot read.
func (b *Budget) Ticks(s *dibs.Schedule, now time.Time, busy bool) (due []time.Time, next time.Time, more bool, err error) {
	spec, err := Parse(s, s.Since)
	if err != nil {
		return nil, next, false, fmt.Errorf("schedule %q: %w", s.Name, err)
	}
	due, next = dueTicks(spec, s, s.Next, now)
	if s.SkipOverlap && busy {
		due = nil
	}
	due, rest := b.take(s, due)
	if !rest.IsZero() {
		next = rest
	}
	return due, next, !rest.IsZero(), nil
}
