package main

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestDurationsAreReadWithDaysAndWrittenShort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"250ms": 250 * time.Millisecond,
		"10s":   10 * time.Second,
		"1m":    time.Minute,
		"1h":    time.Hour,
		"1h30m": 90 * time.Minute,
		"14d":   14 * day,
		"1d12h": 36 * time.Hour,
		"-5s":   -5 * time.Second,
		"0s":    0,
	} {
		got, err := parseDuration(text)
		if err != nil || got != want {
			t.Errorf("parseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
		if back := formatDuration(want); back != text {
			t.Errorf("formatDuration(%v) = %q, want %q", want, back, text)
		}
	}
	for _, text := range []string{"", "10", "d", "1.5d", "-1d", "1d-1h", "99999999999d", "1w", "1d1", "4294967295d"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("parseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestDurationsInJSONAreSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		10 * time.Second:       "10",
		250 * time.Millisecond: "0.25",
		14 * day:               "1209600",
		time.Nanosecond:        "0.000000001",
	} {
		raw, err := json.Marshal(seconds(d))
		if err != nil || string(raw) != want {
			t.Errorf("%v is written as %s, %v; want %s", d, raw, err, want)
		}
		var back seconds
		if err := json.Unmarshal(raw, &back); err != nil || time.Duration(back) != d {
			t.Errorf("%s is read as %v, %v; want %v", raw, time.Duration(back), err, d)
		}
	}
	var s seconds
	if err := json.Unmarshal([]byte(`"1d12h"`), &s); err != nil || time.Duration(s) != 36*time.Hour {
		t.Errorf(`"1d12h" is read as %v, %v`, time.Duration(s), err)
	}
	for _, bad := range []string{`true`, `"soon"`, `1e300`, `[1]`, `null`} {
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s is read as a duration", bad)
		}
	}
}

func TestTimesWithoutAZoneAreThisMachines(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 31, 23, 59, 0, 0, time.Local)
	for _, text := range []string{at.Format(time.RFC3339), "2026-12-31T23:59:00", "2026-12-31 23:59"} {
		got, err := parseTime(text)
		if err != nil || !got.Equal(at) {
			t.Errorf("parseTime(%q) = %v, %v; want %v", text, got, err, at)
		}
	}
	if got, err := parseTime("now"); err != nil || !got.Before(at) || got.IsZero() {
		t.Errorf(`parseTime("now") = %v, %v; want a time long past`, got, err)
	}
	if _, err := parseTime("tomorrow"); err == nil {
		t.Error(`parseTime("tomorrow") gives no error`)
	}
}

func TestRoughDurationsAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 300: "<1ms", 12 * time.Millisecond: "12ms", 1500 * time.Millisecond: "1.5s",
		75 * time.Second: "75s", 3 * time.Minute: "3m", 3 * time.Hour: "3h", 50 * time.Hour: "2d", -time.Minute: "-60s",
	} {
		if got := roughly(d); got != want {
			t.Errorf("roughly(%v) = %q, want %q", d, got, want)
		}
	}
}

// Times can be centuries apart, since some users postpone a job for ever.
func TestTimesFarAwayArePrinted(t *testing.T) {
	c := onSQLite(t)
	c.ok("enqueue", "q", "--run-at", "9999-12-31T23:59:59Z")
	c.ok("enqueue", "q", "--run-at", "0001-01-01T00:00:00Z")
	for _, args := range [][]string{{"ls"}, {"show", "1"}, {"show", "2"}, {"stats"}, {"top", "--once"}} {
		c.ok(args...)
	}
	if got := roughly(math.MinInt64); got != "-106752d" {
		t.Errorf("the longest time is %s", got)
	}
}
