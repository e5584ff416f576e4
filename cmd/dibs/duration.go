package main

import (
	"fmt"
	"time"

	"github.com/dibs-queue/dibs/internal/wire"
)

// durationFlag is the value of a flag: a duration, perhaps with days.
type durationFlag time.Duration

func (f *durationFlag) Set(s string) error {
	d, err := wire.ParseDuration(s)
	*f = durationFlag(d)
	return err
}

func (f *durationFlag) String() string {
	if *f == 0 {
		return ""
	}
	return wire.FormatDuration(time.Duration(*f))
}

func (f *durationFlag) Type() string { return "duration" }

// timeFlag is the value of a flag: a point in time.
type timeFlag time.Time

// timeLayouts are tried in this order. A time without a zone is in the zone of this
// machine.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly,
}

// parseTime reads a time. "now" becomes a time that is in the past on any clock: a run_at in
// the past means at once.
func parseTime(s string) (time.Time, error) {
	if s == "now" {
		return time.Unix(0, 0).UTC(), nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is no time; write 2026-12-31T23:59:00Z, \"2026-12-31 23:59\" (this machine's zone) or now", s)
}

func (f *timeFlag) Set(s string) error {
	t, err := parseTime(s)
	*f = timeFlag(t)
	return err
}

func (f *timeFlag) String() string {
	if time.Time(*f).IsZero() {
		return ""
	}
	return time.Time(*f).Format(time.RFC3339)
}

func (f *timeFlag) Type() string { return "time" }

// noTimeFlag is a timeFlag that may also be empty, for no time.
type noTimeFlag struct{ timeFlag }

func (f *noTimeFlag) Set(s string) error {
	if s == "" {
		f.timeFlag = timeFlag{}
		return nil
	}
	return f.timeFlag.Set(s)
}

func (f *noTimeFlag) time() time.Time { return time.Time(f.timeFlag) }
