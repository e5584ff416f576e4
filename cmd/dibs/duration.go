package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// parseDuration reads the form of time.ParseDuration, also with days in front, such as
// 14d or 1d12h.
func parseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		days, rest = "", s
	}
	var d time.Duration
	if found {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || time.Duration(n) > math.MaxInt64/day {
			return 0, durationError(s)
		}
		d = time.Duration(n) * day
		if rest == "" {
			return d, nil
		}
	}
	more, err := time.ParseDuration(rest)
	if err != nil || found && more < 0 || d+more < d && more > 0 {
		return 0, durationError(s)
	}
	return d + more, nil
}

func durationError(s string) error {
	return fmt.Errorf("%.40q is no duration; write 250ms, 90s, 15m, 12h, 14d or 1h30m", s)
}

// formatDuration formats d in the shortest exact form that parseDuration reads.
func formatDuration(d time.Duration) string {
	if d >= day && d%time.Hour == 0 {
		s := fmt.Sprintf("%dd", d/day)
		if h := d % day / time.Hour; h > 0 {
			s += fmt.Sprintf("%dh", h)
		}
		return s
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// roughly formats d with two or three digits.
func roughly(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + roughly(-max(d, -math.MaxInt64))
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return "<1ms"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0fm", d.Minutes())
	case d < 2*day:
		return fmt.Sprintf("%.0fh", d.Hours())
	}
	return fmt.Sprintf("%.0fd", d.Hours()/24)
}

// durationFlag is the value of a flag: a duration, perhaps with days.
type durationFlag time.Duration

func (f *durationFlag) Set(s string) error {
	d, err := parseDuration(s)
	*f = durationFlag(d)
	return err
}

func (f *durationFlag) String() string {
	if *f == 0 {
		return ""
	}
	return formatDuration(time.Duration(*f))
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

// seconds is a duration that JSON writes as a number of seconds. It also reads strings.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

func (s *seconds) UnmarshalJSON(raw []byte) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		d, err := parseDuration(v)
		*s = seconds(d)
		return err
	case float64:
		if math.Abs(v) > math.MaxInt64/float64(time.Second)/2 {
			return fmt.Errorf("%v seconds are too many", v)
		}
		*s = seconds(math.Round(v * float64(time.Second)))
		return nil
	}
	return fmt.Errorf("%.40s is no duration; write a number of seconds, or a string such as \"90s\"", raw)
}
