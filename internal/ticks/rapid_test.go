package ticks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-queue/dibs"
)

var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "Africa/Casablanca"}

// field is a field of cron: the values that match, or nil for all.
type field []int

func (f field) has(v int) bool { return f == nil || slices.Contains(f, v) }

func (f field) String() string {
	if f == nil {
		return "*"
	}
	texts := make([]string, len(f))
	for i, v := range f {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ",")
}

func drawField(t *rapid.T, name string, low, high int) field {
	if rapid.Bool().Draw(t, name+" is any") {
		return nil
	}
	return rapid.SliceOfNDistinct(rapid.IntRange(low, high), 1, 4, rapid.ID[int]).Draw(t, name)
}

// fields are a spec in the oracle's form.
type fields struct{ minute, hour, day, month, weekday field }

func (f fields) String() string {
	return fmt.Sprint(f.minute, " ", f.hour, " ", f.day, " ", f.month, " ", f.weekday)
}

// match reports whether a spec matches what a clock shows.
func (f fields) match(shown time.Time) bool {
	day, weekday := f.day.has(shown.Day()), f.weekday.has(int(shown.Weekday()))
	both := day && weekday
	if f.day != nil && f.weekday != nil {
		both = day || weekday
	}
	return both && f.minute.has(shown.Minute()) && f.hour.has(shown.Hour()) && f.month.has(int(shown.Month()))
}

// walk is the oracle: it looks at a clock minute by minute. Where the clock jumps it looks at
// each time that is left out; it knows each time that was shown before.
func (f fields) walk(zone *time.Location, from, to time.Time) (list []time.Time) {
	begin := from.Add(-48 * time.Hour).Truncate(time.Minute)
	latest := wall(begin.Add(-time.Minute), zone) // the latest time that the clock has shown
	for t := begin; !t.After(to); t = t.Add(time.Minute) {
		shown, tick := wall(t, zone), false
		if f.hour == nil {
			tick = f.match(shown)
		} else {
			for w := latest.Add(time.Minute); !w.After(shown); w = w.Add(time.Minute) {
				tick = tick || f.match(w)
			}
		}
		if shown.After(latest) {
			latest = shown
		}
		if tick && t.After(from) {
			list = append(list, t.UTC())
		}
	}
	return list
}

func wall(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
}

// TestTicksAreThoseOfAClock compares ticks with a clock that is looked at each minute, around
// the changes of clocks.
func TestTicksAreThoseOfAClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		f := fields{drawField(t, "minute", 0, 59), drawField(t, "hour", 0, 23), drawField(t, "day", 1, 28), nil, drawField(t, "weekday", 0, 6)}
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 700).Draw(t, "day of the start"))
		_, change := from.In(zone).ZoneBounds()
		if !change.IsZero() && rapid.Bool().Draw(t, "near a change of clocks") {
			from = change.Add(-time.Duration(rapid.IntRange(0, 2000).Draw(t, "minutes before it")) * time.Minute)
		}
		from = from.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "seconds")) * time.Second)
		to := from.Add(72 * time.Hour)
		s, err := Parse(&dibs.Schedule{Spec: f.String(), Zone: name}, from)
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Time
		for at := s.Next(from); !at.IsZero() && !at.After(to); at = s.Next(at) {
			got = append(got, at)
		}
		if want := f.walk(zone, from, to); !slices.Equal(got, want) {
			t.Fatalf("%s in %s from %v: ticks\n%v, want\n%v", f, name, from, got, want)
		}
	})
}

// TestAWeekOfTicks moves a clock through a week, and looks at a schedule from time to time.
// Each tick gets one job, unless it was missed and the schedule says otherwise.
func TestAWeekOfTicks(t *testing.T) {
	specs := []string{"every 17m", "*/5 * * * *", "0 9 * * mon-fri", "@hourly", "30 2 * * *"}
	rapid.Check(t, func(t *rapid.T) {
		s := dibs.Schedule{
			Spec: rapid.SampledFrom(specs).Draw(t, "spec"), Zone: rapid.SampledFrom(zones).Draw(t, "zone"),
			Missed: rapid.SampledFrom([]dibs.Missed{dibs.MissedOnce, dibs.MissedSkip, dibs.MissedAll}).Draw(t, "missed"), MissedLimit: dibs.MaxMissed,
		}
		from := time.Date(2026, 10, 22, 0, 0, 0, 0, time.UTC) // Berlin's clocks change on the 25th
		spec, err := Parse(&s, from)
		if err != nil {
			t.Fatal(err)
		}
		var jobs []time.Time
		next, now, to := spec.Next(from), from, from.AddDate(0, 0, 7)
		for now.Before(to) {
			if pause := rapid.IntRange(0, 99).Draw(t, "pause"); pause == 0 {
				now = now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "minutes away")) * time.Minute)
			} else {
				now = next.Add(time.Duration(rapid.IntRange(0, 10_000).Draw(t, "ms late")) * time.Millisecond)
			}
			if now.Before(next) {
				continue
			}
			late := now.Sub(next) > lateFor
			before := len(jobs)
			due, following := dueTicks(spec, &s, next, now)
			jobs = append(jobs, due...)
			var all []time.Time
			for at := next; !at.After(now); at = spec.Next(at) {
				all = append(all, at)
			}
			var want []time.Time
			switch {
			case !late || s.Missed == dibs.MissedAll:
				want = all[max(0, len(all)-dibs.MaxMissed):]
			case s.Missed == dibs.MissedOnce:
				want = all[len(all)-1:]
			default:
				for _, at := range all {
					if now.Sub(at) <= lateFor {
						want = append(want, at)
					}
				}
			}
			if !slices.Equal(jobs[before:], want) {
				t.Fatalf("%s at %v, first %v: jobs for %v, want %v", s.Spec, now, next, jobs[before:], want)
			}
			next = following
		}
		for i := 1; i < len(jobs); i++ {
			if !jobs[i].After(jobs[i-1]) {
				t.Fatalf("two jobs for %v and %v", jobs[i-1], jobs[i])
			}
		}
	})
}
