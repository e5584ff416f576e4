package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads the form of time.ParseDuration, also with days in front, such as
// 14d or 1d12h.
func ParseDuration(s string) (time.Duration, error) {
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

// FormatDuration formats d in the shortest exact form that ParseDuration reads.
func FormatDuration(d time.Duration) string {
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

// Seconds is a duration that JSON writes as a number of seconds. It also reads strings. What it reads
// is rounded to microseconds: no database keeps less, and a fraction of one would count in the checks.
type Seconds time.Duration

func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

func (s *Seconds) UnmarshalJSON(raw []byte) error {
	var v any
	err := json.Unmarshal(raw, &v)
	switch v := v.(type) {
	case string:
		d, err := ParseDuration(v)
		*s = Seconds(d.Round(time.Microsecond))
		return err
	case float64:
		if err == nil && math.Abs(v) <= math.MaxInt64/float64(time.Second)/2 {
			*s = Seconds(math.Round(v*1e6)) * Seconds(time.Microsecond)
			return nil
		}
	}
	if n := raw[0]; n == '-' || n >= '0' && n <= '9' { // one that float64 cannot hold among them
		return fmt.Errorf("%.40s seconds are too many", raw)
	}
	return fmt.Errorf("%.40s is no duration; write a number of seconds, or a string such as \"90s\"", raw)
}
