package wire

import (
	"encoding/json"
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
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
		if back := FormatDuration(want); back != text {
			t.Errorf("FormatDuration(%v) = %q, want %q", want, back, text)
		}
	}
	for _, text := range []string{"", "10", "d", "1.5d", "-1d", "1d-1h", "99999999999d", "1w", "1d1", "4294967295d"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestDurationsInJSONAreSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		10 * time.Second:       "10",
		250 * time.Millisecond: "0.25",
		14 * day:               "1209600",
		time.Microsecond:       "0.000001",
	} {
		raw, err := json.Marshal(Seconds(d))
		if err != nil || string(raw) != want {
			t.Errorf("%v is written as %s, %v; want %s", d, raw, err, want)
		}
		var back Seconds
		if err := json.Unmarshal(raw, &back); err != nil || time.Duration(back) != d {
			t.Errorf("%s is read as %v, %v; want %v", raw, time.Duration(back), err, d)
		}
	}
	var s Seconds
	if err := json.Unmarshal([]byte(`"1d12h"`), &s); err != nil || time.Duration(s) != 36*time.Hour {
		t.Errorf(`"1d12h" is read as %v, %v`, time.Duration(s), err)
	}
	for _, bad := range []string{`true`, `"soon"`, `1e300`, `[1]`, `null`} {
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s is read as a duration", bad)
		}
	}
}
