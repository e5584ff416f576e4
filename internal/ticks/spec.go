// Package ticks computes when the ticks of schedules come and which of them get a job, in
// the same way for every store.
package ticks

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/zone"
)

// Spec is a schedule's spec, zone, start and end.
type Spec struct {
	every time.Duration // an interval; 0: cron
	since time.Time     // intervals are counted from here

	cron *cron.SpecSchedule // read in UTC: zone turns its times into real ones
	zone *time.Location
	// hourly specs match each hour, so they follow the clock through the hour that comes
	// twice; the others have a time of day, which comes once a day.
	hourly bool

	start, end time.Time
}

var parser = cron.MustNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.Extended | cron.DowOrDom).
	WithMaxSearchYears(searchYears)

// searchYears is enough for each day that comes at all: 29 February on a given day of the
// week is at most 40 years away.
const searchYears = 40

const everyHour = 1<<24 - 1

// Parse reads a schedule's spec and zone. Intervals are counted from its start, or else from
// since.
func Parse(s *dibs.Schedule, since time.Time) (*Spec, error) {
	if reason, found := strings.CutPrefix(s.Spec, unreadable); found { // see Decode
		return nil, invalid("settings", "cannot be read: %s", reason)
	}
	p := &Spec{start: s.Start, end: s.End, since: since}
	if !s.Start.IsZero() {
		p.since = s.Start
	}
	var err error
	if p.zone, err = zone.Load("schedule.zone", s.Zone); err != nil {
		return nil, err
	}
	spec := strings.TrimSpace(s.Spec)
	switch {
	case spec == "":
		return nil, invalid("spec", `is missing; give five fields of cron, or an interval such as "every 90s"`)
	case len(spec) > dibs.MaxSpec:
		return nil, invalid("spec", "is %d bytes, the limit is %d", len(spec), dibs.MaxSpec)
	}
	if d, ok := interval(spec); ok {
		if p.every, err = time.ParseDuration(d); err != nil {
			return nil, invalid("spec", "%q is no interval: write it as 90s, 5m or 1h30m", d)
		}
		if p.every < dibs.MinEvery || p.every > dibs.MaxDelay {
			return nil, invalid("spec", "the interval must be %v to %v, got %v", dibs.MinEvery, dibs.MaxDelay, p.every)
		}
		return p, nil
	}
	if strings.Contains(spec, "TZ=") {
		return nil, invalid("spec", "must not name a time zone; that is the zone's")
	}
	parsed, err := parser.Parse(shortNames(spec))
	if err != nil {
		return nil, mistake(spec)
	}
	fields, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, invalid("spec", "%q is not understood", spec)
	}
	fields.Location = time.UTC
	p.cron, p.hourly = fields, fields.Hour&everyHour == everyHour
	if p.cron.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, invalid("spec", "%q never comes", spec)
	}
	return p, nil
}

// longName matches the full names of months and days; cron knows their first three letters.
var longName = regexp.MustCompile(`(?i)\b(january|february|march|april|june|july|august|september|october|november|december|sunday|monday|tuesday|wednesday|thursday|friday|saturday)\b`)

// shortNames writes the first three letters of the names of months and days.
func shortNames(spec string) string {
	return longName.ReplaceAllStringFunc(spec, func(name string) string { return name[:3] })
}

// interval returns the length in "every 90s" and "@every 90s".
func interval(spec string) (d string, ok bool) {
	word, d, _ := strings.Cut(spec, " ")
	return strings.TrimSpace(d), word == "every" || word == "@every"
}

func invalid(field, reason string, args ...any) error {
	return &dibs.InvalidError{Field: "schedule." + field, Reason: fmt.Sprintf(reason, args...)}
}

// Next is the first tick after a time, or zero if there is none.
func (s *Spec) Next(after time.Time) time.Time {
	if after.Before(s.start) {
		after = s.start.Add(-1)
	}
	var t time.Time
	switch {
	case s.every > 0:
		t = s.nextInterval(after)
	case s.hourly:
		t = s.nextHourly(after)
	default:
		t = s.nextDaily(after)
	}
	if t.IsZero() || !s.end.IsZero() && t.After(s.end) || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC()
}

// nextInterval counts from since, where a schedule with a start has its first tick.
func (s *Spec) nextInterval(after time.Time) time.Time {
	if after.Before(s.since) {
		if !s.start.IsZero() {
			return s.since
		}
		after = s.since
	}
	return s.since.Add((after.Sub(s.since)/s.every + 1) * s.every)
}

// nextHourly follows what a clock in the zone shows, and shows twice.
func (s *Spec) nextHourly(after time.Time) time.Time {
	local := after.In(s.zone)
	shown := zone.Shown(local)
	for {
		if shown = s.cron.Next(shown); shown.IsZero() {
			return shown
		}
		_, offset := local.Zone()
		_, change := local.ZoneBounds() // when the clock is changed next
		if t := shown.Add(-time.Duration(offset) * time.Second); change.IsZero() || t.Before(change) {
			return t
		}
		local, shown = change, zone.Shown(change).Add(-1)
	}
}

// nextDaily is the first time that the clock shows the next matching time or a later one. So
// a time that is left out comes at the change of the clocks, and one that comes twice counts
// the first time.
func (s *Spec) nextDaily(after time.Time) time.Time {
	local := after.In(s.zone)
	shown := zone.Shown(local)
	if change, _ := local.ZoneBounds(); !change.IsZero() {
		if before := zone.Shown(change.Add(-1)); before.After(shown) { // the clock was put back
			shown = before
		}
	}
	if shown = s.cron.Next(shown); shown.IsZero() {
		return shown
	}
	return zone.First(shown, s.zone)
}
