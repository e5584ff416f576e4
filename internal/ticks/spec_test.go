package ticks

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

func parse(t testing.TB, spec, zone string) *Spec {
	t.Helper()
	s, err := Parse(&dibs.Schedule{Spec: spec, Zone: zone}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestClocksThatChange is what happens to ticks when clocks are put forward and back, in
// three zones. Lord Howe changes by half an hour.
func TestClocksThatChange(t *testing.T) {
	for _, test := range []struct {
		zone, spec, from string // from is UTC
		want             string // UTC
	}{
		// In Berlin 02:00 becomes 03:00 on 29 March 2026 at 01:00 UTC.
		{"Europe/Berlin", "30 2 * * *", "2026-03-27T12:00", "03-28T01:30 03-29T01:00 03-30T00:30"},
		{"Europe/Berlin", "0,30 2,3 * * *", "2026-03-28T12:00", "03-29T01:00 03-29T01:30 03-30T00:00"},
		{"Europe/Berlin", "0 3 * * *", "2026-03-28T12:00", "03-29T01:00 03-30T01:00"},
		{"Europe/Berlin", "30 * * * *", "2026-03-28T23:45", "03-29T00:30 03-29T01:30 03-29T02:30"},
		{"Europe/Berlin", "30 2 29 3 *", "2026-03-01T00:00", "03-29T01:00 03-29T00:30"},
		{"Europe/Berlin", "@daily", "2026-03-28T12:00", "03-28T23:00 03-29T22:00"},
		// 03:00 becomes 02:00 on 25 October 2026 at 01:00 UTC.
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", "10-25T00:30 10-26T01:30"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-25T00:45", "10-26T01:30"},
		{"Europe/Berlin", "0 3 * * *", "2026-10-24T12:00", "10-25T02:00 10-26T02:00"},
		{"Europe/Berlin", "30 * * * *", "2026-10-24T23:45", "10-25T00:30 10-25T01:30 10-25T02:30"},
		{"Europe/Berlin", "0 */2 * * *", "2026-10-24T23:45", "10-25T00:00 10-25T03:00 10-25T05:00"},
		{"Europe/Berlin", "every 1h", "2026-10-24T23:45", "10-25T00:00 10-25T01:00 10-25T02:00"},
		// In New York 02:00 becomes 03:00 on 8 March 2026 at 07:00 UTC, 02:00 becomes 01:00 on
		// 1 November at 06:00 UTC.
		{"America/New_York", "15 2 * * *", "2026-03-07T12:00", "03-08T07:00 03-09T06:15"},
		{"America/New_York", "*/20 * * * *", "2026-03-08T06:30", "03-08T06:40 03-08T07:00 03-08T07:20"},
		{"America/New_York", "30 1 * * *", "2026-10-31T12:00", "11-01T05:30 11-02T06:30"},
		{"America/New_York", "*/20 * * * *", "2026-11-01T05:30", "11-01T05:40 11-01T06:00 11-01T06:20"},
		// On Lord Howe 02:00 becomes 02:30 on 4 October 2026 at 15:30 UTC the day before, 02:00
		// becomes 01:30 on 5 April at 15:00 UTC the day before.
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-02T16:00", "10-03T15:30 10-04T15:15"},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-03T15:00", "04-04T14:45 04-05T15:15"},
		{"Australia/Lord_Howe", "15,45 * * * *", "2026-04-04T14:20", "04-04T14:45 04-04T15:15 04-04T15:45"},
	} {
		s := parse(t, test.spec, test.zone)
		at, err := time.Parse("2006-01-02T15:04", test.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.Fields(test.want) {
			at = s.Next(at)
			got = append(got, at.Format("01-02T15:04"))
		}
		if joined := strings.Join(got, " "); joined != test.want {
			t.Errorf("%s in %s from %s: ticks\n%s, want\n%s", test.spec, test.zone, test.from, joined, test.want)
		}
	}
}

func TestSpecs(t *testing.T) {
	from := time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC) // a Monday
	for spec, want := range map[string]string{
		"*/15 * * * *":     "2026-11-23T07:15:00Z",
		"30 */15 * * * *":  "2026-11-23T07:00:30Z",
		"0 9 * * mon-fri":  "2026-11-23T09:00:00Z",
		"0 9 * * 0":        "2026-11-29T09:00:00Z",
		"0 9 * * 7":        "2026-11-29T09:00:00Z",
		"0 0 13 * fri":     "2026-11-27T00:00:00Z", // either, as in cron
		"0 0 29 2 *":       "2028-02-29T00:00:00Z",
		"0 0 L * *":        "2026-11-30T00:00:00Z",
		"0 0 * * fri#2":    "2026-12-11T00:00:00Z",
		"0 0 * * fri#L":    "2026-11-27T00:00:00Z",
		"0 0 15W * *":      "2026-12-15T00:00:00Z",
		"@hourly":          "2026-11-23T08:00:00Z",
		"@weekly":          "2026-11-29T00:00:00Z",
		"@yearly":          "2027-01-01T00:00:00Z",
		"every 7s":         "2026-11-23T07:00:04Z", // counted from the first of January
		"@every 36h":       "2026-11-24T00:00:00Z",
		"0 12 1 jan,jun *": "2027-01-01T12:00:00Z",
	} {
		if got := parse(t, spec, "").Next(from).Format(time.RFC3339); got != want {
			t.Errorf("%s: the next tick is %s, want %s", spec, got, want)
		}
	}
}

func TestASpecThatIsNoneIsRefused(t *testing.T) {
	for _, spec := range []string{
		"", " ", "x", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 32 * *", "* * * 13 *", "* * * * 8", "0 0 31 2 *", "0 0 30 feb *",
		"every", "every x", "every 0s", "every -1s", "every 0.5s", "every 1000000h", "@every 1ms", "@reboot", "@", "CRON_TZ=UTC * * * * *", strings.Repeat("*", 300),
	} {
		_, err := Parse(&dibs.Schedule{Spec: spec}, time.Now())
		var invalid *dibs.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "schedule.spec" {
			t.Errorf("%q gave %v, want an InvalidError of schedule.spec", spec, err)
		}
	}
}

func TestStartAndEnd(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for spec, first := range map[string]time.Time{"every 1h": start, "0 12 * * *": start, "30 * * * *": start.Add(30 * time.Minute)} {
		s, err := Parse(&dibs.Schedule{Spec: spec, Start: start, End: start.Add(30 * time.Minute)}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []time.Time{{}, start.Add(-time.Hour), start.Add(-1)} {
			if got := s.Next(from); !got.Equal(first) {
				t.Errorf("%s: the first tick after %v is %v, want %v", spec, from, got, first)
			}
		}
		if got := s.Next(first); !got.IsZero() {
			t.Errorf("%s: after the end comes %v", spec, got)
		}
	}
}

func due(t *testing.T, spec string, s dibs.Schedule, first, now time.Time) []time.Time {
	t.Helper()
	s.Spec = spec
	p, err := Parse(&s, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	list, next := dueTicks(p, &s, first, now)
	if want := p.Next(now); !next.Equal(want) {
		t.Errorf("the next tick is %v, want %v", next, want)
	}
	return list
}

func TestTicksThatAreDue(t *testing.T) {
	at := func(text string) time.Time {
		r, err := time.Parse("2006-01-02 15:04:05", "2026-06-01 "+text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	all := dibs.Schedule{Missed: dibs.MissedAll, MissedLimit: 3}
	for _, test := range []struct {
		what, spec string
		s          dibs.Schedule
		first, now string
		want       []string
	}{
		{"on time", "0 9 * * *", dibs.Schedule{}, "09:00:00", "09:00:00", []string{"09:00:00"}},
		{"late, not missed", "0 9 * * *", dibs.Schedule{Missed: dibs.MissedSkip}, "09:00:00", "09:00:10", []string{"09:00:00"}},
		{"several, late", "every 2s", dibs.Schedule{Missed: dibs.MissedOnce}, "09:00:00", "09:00:05", []string{"09:00:00", "09:00:02", "09:00:04"}},
		{"missed, once", "0 * * * *", dibs.Schedule{Missed: dibs.MissedOnce}, "09:00:00", "12:30:00", []string{"12:00:00"}},
		{"missed, by default", "0 * * * *", dibs.Schedule{}, "09:00:00", "12:30:00", []string{"12:00:00"}},
		{"missed, skipped", "0 * * * *", dibs.Schedule{Missed: dibs.MissedSkip}, "09:00:00", "12:30:00", nil},
		{"missed, skipped but for a late one", "0 * * * *", dibs.Schedule{Missed: dibs.MissedSkip}, "09:00:00", "12:00:05", []string{"12:00:00"}},
		{"missed, all", "0 * * * *", all, "10:00:00", "12:30:00", []string{"10:00:00", "11:00:00", "12:00:00"}},
		{"missed, the latest of all", "0 * * * *", all, "05:00:00", "12:30:00", []string{"10:00:00", "11:00:00", "12:00:00"}},
		{"missed, at most", "every 1s", all, "05:00:00", "12:30:00", []string{"12:29:58", "12:29:59", "12:30:00"}},
		{"one of several that would overlap", "every 2s", dibs.Schedule{SkipOverlap: true}, "09:00:00", "09:00:05", []string{"09:00:04"}},
	} {
		got := due(t, test.spec, test.s, at(test.first), at(test.now))
		var want []time.Time
		for _, w := range test.want {
			want = append(want, at(w))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", test.what, got, want)
		}
	}
	years := due(t, "* * * * * *", all, at("09:00:00").AddDate(-8, 0, 0), at("09:00:00"))
	if len(years) != 3 || !years[2].Equal(at("09:00:00")) {
		t.Errorf("of eight years: %v", years)
	}
}
