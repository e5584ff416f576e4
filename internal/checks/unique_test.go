package checks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

func row(t *testing.T, j dibs.NewJob) checks.Row {
	t.Helper()
	j.Kind, j.UniqueKey = "k", "u"
	rows, err := checks.Jobs([]dibs.NewJob{j}, func(string) (int, error) { return dibs.MaxPayload, nil })
	if err != nil {
		t.Fatal(err)
	}
	return rows[0]
}

// shows names the window of the calendar that a clock shows.
func shows(unit string, local time.Time) string {
	switch unit {
	case "hour":
		return local.Format("2006-01-02 15")
	case "day":
		return local.Format("2006-01-02")
	case "month":
		return local.Format("2006-01")
	}
	year, week := local.ISOWeek()
	return fmt.Sprintf("%d-%02d", year, week)
}

// A clock of the zone is looked at minute by minute. The window of each moment must end after the
// last minute in which the clock shows it.
func TestAWindowEndsWhenTheClockShowsTheNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, from string }{
		{"UTC", "2026-12-28"},
		{"Europe/Berlin", "2026-03-26"},       // an hour is left out
		{"Europe/Berlin", "2026-10-22"},       // an hour comes twice
		{"America/Sao_Paulo", "2018-11-01"},   // midnight is left out
		{"America/Sao_Paulo", "2019-02-14"},   // the last hour of a day comes twice
		{"America/St_Johns", "2007-03-08"},    // the clock goes from 00:01 to 01:01
		{"America/St_Johns", "2007-11-01"},    // the clock goes from 00:01 to 23:01: a day is shown twice
		{"Australia/Lord_Howe", "2026-10-01"}, // half an hour is left out
		{"Australia/Lord_Howe", "2026-04-02"}, // half an hour comes twice
		{"Pacific/Apia", "2011-12-27"},        // a day is left out
		{"Asia/Kathmandu", "2026-02-26"},      // 5:45 before UTC
		{"Africa/Casablanca", "2026-02-12"},   // Ramadan
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.ParseInLocation(time.DateOnly, c.from, zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []string{"hour", "day", "week", "month"} {
			period := row(t, dibs.NewJob{UniqueWindow: unit + " in " + c.zone}).Period
			const days = 45
			last := map[string]int{} // the last minute that shows each window
			for i := range days * 24 * 60 {
				last[shows(unit, from.Add(time.Duration(i)*time.Minute).In(zone))] = i
			}
			for i := 0; i < 9*24*60; i += 7 {
				now := from.Add(time.Duration(i)*time.Minute + 30*time.Second)
				last := last[shows(unit, now.In(zone))]
				if end, want := period.End(now), from.Add(time.Duration(last+1)*time.Minute); !end.Equal(want) {
					t.Fatalf("%s in %s: a window of %v ends at %v, want %v", unit, c.zone, now.In(zone), end.In(zone), want.In(zone))
				}
			}
		}
	}
}

func TestAPeriodCountsFromNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 29, 0, 59, 59, 999_999_000, time.UTC)
	p := row(t, dibs.NewJob{UniqueFor: 25 * time.Hour}).Period
	if got := p.End(now); !got.Equal(now.Add(25 * time.Hour)) {
		t.Errorf("a period of 25h from %v ends at %v", now, got)
	}
	if (checks.Period{}) != row(t, dibs.NewJob{}).Period || p.IsZero() {
		t.Error("a job without a period has one")
	}
}
