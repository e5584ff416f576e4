package cmdline

import (
	"fmt"
	"time"

	"github.com/dibs-queue/dibs/internal/wire"
)

// DurationFlag is the value of a flag: a duration, perhaps with days.
type DurationFlag time.Duration

func (f *DurationFlag) Set(s string) error {
	d, err := wire.ParseDuration(s)
	*f = DurationFlag(d)
	return err
}

func (f *DurationFlag) String() string {
	if *f == 0 {
		return ""
	}
	return wire.FormatDuration(time.Duration(*f))
}

func (f *DurationFlag) Type() string { return "duration" }

// TimeFlag is the value of a flag: a point in time.
type TimeFlag time.Time

// timeLayouts are tried in this order. A time without a zone is in the zone of this
// machine.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly,
}

// ParseTime reads a time. "now" becomes a time that is in the past on any clock: a run_at in
// the past means at once.
func ParseTime(s string) (time.Time, error) {
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

func (f *TimeFlag) Set(s string) error {
	t, err := ParseTime(s)
	*f = TimeFlag(t)
	return err
}

func (f *TimeFlag) String() string {
	if time.Time(*f).IsZero() {
		return ""
	}
	return time.Time(*f).Format(time.RFC3339)
}

func (f *TimeFlag) Type() string { return "time" }

// NoTimeFlag is a TimeFlag that may also be empty, for no time.
type NoTimeFlag struct{ TimeFlag }

func (f *NoTimeFlag) Set(s string) error {
	if s == "" {
		f.TimeFlag = TimeFlag{}
		return nil
	}
	return f.TimeFlag.Set(s)
}

func (f *NoTimeFlag) Time() time.Time { return time.Time(f.TimeFlag) }
