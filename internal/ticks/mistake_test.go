package ticks_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/ticks"
)

// A wrong spec is explained by the field that is wrong and what is allowed there.
func TestMistakesInSpecsAreExplained(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"60 * * * *":       `the minute "60" is not understood in "60 * * * *"; allowed are 0 to 59`,
		"* 24 * * *":       `the hour "24"`,
		"* * 0 * *":        `the day of month "0"`,
		"* * 32W * *":      `the day of month "32W"`,
		"* * * 13 *":       `the month "13" is not understood in "* * * 13 *"; allowed are 1 to 12, or jan to dec`,
		"* * * foo *":      `the month "foo"`,
		"* * * may 8":      `the day of week "8"`,
		"* * * january 8":  `the day of week "8"`,
		"* * * * sundays":  `the day of week "sundays"`,
		"* * * * 8":        `the day of week "8"`,
		"* * * * fri#6":    `the day of week "fri#6"`,
		"* * * * mon-":     `the day of week "mon-"`,
		"60 * * * * *":     `the second "60"`,
		"* 60 * * * *":     `the minute "60"`,
		"*/0 * * * *":      `the minute "*/0"`,
		"a-b * * * *":      `the minute "a-b"`,
		"1/2/3 * * * *":    `the minute "1/2/3"`,
		"@fortnightly":     `"@fortnightly" is not known; there are @hourly, @daily`,
		"noon":             `"noon" has 1 field; cron has five (minute, hour,`,
		"* * * *":          `"* * * *" has 4 fields`,
		"* * * * * * 2027": `has 7 fields`,
		"90s":              `an interval is written "every 90s"`,
		"every soon":       `"soon" is no interval`,
		"0 0 30 2 *":       `"0 0 30 2 *" never comes`,
	} {
		_, err := ticks.Parse(&dibs.Schedule{Spec: spec}, time.Now())
		var invalid *dibs.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "schedule.spec" || !strings.Contains(invalid.Reason, want) {
			t.Errorf("%q gives %v, want %q", spec, err, want)
		}
	}
	for _, spec := range []string{"* * * * 0", "* * * * 7", "0 0 1,15 jan,JUL *", "*/10 8-18 * * mon-fri", "0 4 L * *", "0 4 L-3 * *", "0 4 15W * *", "0 4 LW * *", "0 4 * * fri#2", "0 4 * * fri#L"} {
		if _, err := ticks.Parse(&dibs.Schedule{Spec: spec}, time.Now()); err != nil {
			t.Errorf("%q gives %v", spec, err)
		}
	}
}

// cron knows the first three letters of the names of days and months; their full names mean the same.
func TestDaysAndMonthsMayHaveTheirFullNames(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for long, short := range map[string]string{
		"0 9 * * sunday":            "0 9 * * sun",
		"0 9 * * Monday-FRIDAY":     "0 9 * * mon-fri",
		"0 9 * * friday#2":          "0 9 * * fri#2",
		"0 9 1 january,july *":      "0 9 1 jan,jul *",
		"0 0 9 1 may-september/2 *": "0 0 9 1 may-sep/2 *",
	} {
		var next [2][]time.Time
		for i, spec := range []string{long, short} {
			var err error
			if next[i], err = ticks.NextTicks(&dibs.Schedule{Spec: spec}, 20, from); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(next[0], next[1]) {
			t.Errorf("%q has the ticks %v, %q %v", long, next[0], short, next[1])
		}
	}
}
