package ticks_test

import (
	"errors"
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
