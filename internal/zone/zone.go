// Package zone knows what clocks in a time zone show, and when.
package zone

import (
	"fmt"
	"time"
	_ "time/tzdata" // for machines that have no time zones of their own

	"github.com/dibs-queue/dibs"
)

// Load returns the time zone of an IANA name; empty is UTC.
func Load(field, name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	z, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // each machine would have another one
		return nil, &dibs.InvalidError{Field: field, Reason: fmt.Sprintf("%.100q is no known time zone; use an IANA name such as Europe/Berlin", name)}
	}
	return z, nil
}

// Shown is what a clock in the zone of t shows, as if it were UTC.
func Shown(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// First is when a clock in the zone first shows a time or a later one: for a time that is left
// out that is the change of clocks.
func First(shown time.Time, zone *time.Location) time.Time {
	t := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), 0, zone)
	last, next := t.ZoneBounds()
	switch at := Shown(t); {
	case at.After(shown): // left out, and t is after the change
		return last
	case at.Before(shown): // left out, and t is before the change
		return next
	}
	if !last.IsZero() {
		_, offset := last.Add(-1).Zone()
		if first := shown.Add(-time.Duration(offset) * time.Second); first.Before(last) {
			return first
		}
	}
	return t
}
