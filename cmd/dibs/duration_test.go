package main

import (
	"math"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/words"
)

func TestTimesWithoutAZoneAreThisMachines(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 31, 23, 59, 0, 0, time.Local)
	for _, text := range []string{at.Format(time.RFC3339), "2026-12-31T23:59:00", "2026-12-31 23:59"} {
		got, err := cmdline.ParseTime(text)
		if err != nil || !got.Equal(at) {
			t.Errorf("parseTime(%q) = %v, %v; want %v", text, got, err, at)
		}
	}
	if got, err := cmdline.ParseTime("now"); err != nil || !got.Before(at) || got.IsZero() {
		t.Errorf(`parseTime("now") = %v, %v; want a time long past`, got, err)
	}
	if _, err := cmdline.ParseTime("tomorrow"); err == nil {
		t.Error(`parseTime("tomorrow") gives no error`)
	}
}

func TestRoughDurationsAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 300: "<1ms", 12 * time.Millisecond: "12ms", 1500 * time.Millisecond: "1.5s",
		75 * time.Second: "75s", 3 * time.Minute: "3m", 3 * time.Hour: "3h", 50 * time.Hour: "2d", -time.Minute: "-60s",
	} {
		if got := words.Roughly(d); got != want {
			t.Errorf("roughly(%v) = %q, want %q", d, got, want)
		}
	}
}

// Times can be centuries apart, since some users postpone a job for ever.
func TestTimesFarAwayArePrinted(t *testing.T) {
	c := onSQLite(t)
	c.OK("enqueue", "q", "--run-at", "9999-12-31T23:59:59Z")
	c.OK("enqueue", "q", "--run-at", "0001-01-01T00:00:00Z")
	for _, args := range [][]string{{"ls"}, {"show", "1"}, {"show", "2"}, {"stats"}, {"top", "--once"}} {
		c.OK(args...)
	}
	if got := words.Roughly(math.MinInt64); got != "-106752d" {
		t.Errorf("the longest time is %s", got)
	}
}
