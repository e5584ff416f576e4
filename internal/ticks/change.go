package ticks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

const maxJitter = 24 * time.Hour

// Starts lie in these years: from one to any time of use it is less than the 292 years that a
// time.Duration can hold.
const firstYear, lastYear = 1970, 2200

// check returns a schedule with its defaults filled in, as stores keep it, or says which
// field is wrong. old is the schedule that it replaces, or nil; limit gives a queue's payload
// limit in bytes, which goes for payloads that are new.
func check(s dibs.Schedule, old *dibs.Schedule, limit func(queue string) (int, error)) (dibs.Schedule, error) {
	s, err := checkAllBut(s, old, limit)
	if err == nil {
		_, err = Parse(&s, time.Time{})
	}
	return s, err
}

// checkAllBut is check without the spec and its zone, which a newer program may have written.
func checkAllBut(s dibs.Schedule, old *dibs.Schedule, limit func(queue string) (int, error)) (dibs.Schedule, error) {
	if err := checks.Name("schedule.name", s.Name); err != nil {
		return s, err
	}
	row, err := job(&s)
	if err == nil && !samePayload(old, &row) {
		err = ofSchedule(checks.CheckPayloads([]checks.Row{row}, limit), "jobs[0].")
	}
	if err != nil {
		return s, err
	}
	s.Queue, s.Payload, s.Metadata, s.Priority = row.Queue, json.RawMessage(row.Payload), row.Metadata, new(int(row.Priority))
	s.Missed, s.Zone, s.Spec = cmp.Or(s.Missed, dibs.MissedOnce), cmp.Or(s.Zone, "UTC"), strings.TrimSpace(s.Spec)
	s.Start, s.End = s.Start.UTC().Truncate(time.Microsecond), s.End.UTC().Truncate(time.Microsecond)
	if s.Missed == dibs.MissedAll {
		s.MissedLimit = cmp.Or(s.MissedLimit, dibs.DefaultMissedLimit)
	}
	switch {
	case !s.Start.IsZero() && (s.Start.Year() < firstYear || s.Start.Year() > lastYear):
		return s, invalid("start", "must lie in the years %d to %d, got year %d", firstYear, lastYear, s.Start.Year())
	case checks.RunAt(s.End) != nil:
		return s, invalid("end", "must lie in the years 1 to 9999, got year %d", s.End.Year())
	case s.Jitter < 0 || s.Jitter > maxJitter:
		return s, invalid("jitter", "must be 0 to %v, got %v", maxJitter, s.Jitter)
	case s.Missed != dibs.MissedOnce && s.Missed != dibs.MissedSkip && s.Missed != dibs.MissedAll:
		return s, invalid("missed", "must be %q, %q or %q, got %.40q", dibs.MissedOnce, dibs.MissedSkip, dibs.MissedAll, s.Missed)
	case s.Missed != dibs.MissedAll && s.MissedLimit != 0:
		return s, invalid("missed_limit", "needs missed to be %q", dibs.MissedAll)
	case s.MissedLimit < 0 || s.MissedLimit > dibs.MaxMissed:
		return s, invalid("missed_limit", "must be 1 to %d, got %d", dibs.MaxMissed, s.MissedLimit)
	case !s.End.IsZero() && s.End.Before(s.Start):
		return s, invalid("end", "must not be before the start")
	}
	return s, nil
}

// job checks what goes into a schedule's jobs.
func job(s *dibs.Schedule) (row checks.Row, err error) {
	rows, err := checks.Jobs([]dibs.NewJob{{
		Queue: s.Queue, Kind: s.Kind, Payload: s.Payload, Metadata: s.Metadata,
		Priority: s.Priority, MaxAttempts: s.MaxAttempts, Group: s.Group,
	}}, noLimit)
	if err != nil {
		return row, ofSchedule(err, "jobs[0].")
	}
	return rows[0], nil
}

func noLimit(string) (int, error) { return dibs.MaxPayloadLimit, nil }

// samePayload reports whether the old schedule has the job's queue and payload already.
func samePayload(old *dibs.Schedule, row *checks.Row) bool {
	if old == nil || old.Queue != row.Queue {
		return false
	}
	raw, _ := old.Payload.(json.RawMessage) // check has made it one
	return bytes.Equal(raw, row.Payload)
}

// ofSchedule names the field of an InvalidError as the schedule's.
func ofSchedule(err error, prefix string) error {
	var e *dibs.InvalidError
	if errors.As(err, &e) {
		return &dibs.InvalidError{Field: "schedule." + strings.TrimPrefix(e.Field, prefix), Reason: e.Reason}
	}
	return err
}

// place fills in the fields of a checked schedule that are the store's; old is the schedule
// that it replaces, or nil.
func place(s, old *dibs.Schedule, now time.Time) error {
	s.Since, s.Next, s.LastTick, s.LastJob = now, time.Time{}, time.Time{}, 0
	same := false
	if old != nil {
		s.LastTick, s.LastJob = old.LastTick, old.LastJob
		if s.Spec == old.Spec && s.Start.Equal(old.Start) {
			s.Since, same = old.Since, s.Zone == old.Zone
		}
	}
	if s.Paused {
		return nil
	}
	if same && !old.Paused && !old.Next.IsZero() { // it may have come already
		if s.End.IsZero() || !old.Next.After(s.End) {
			s.Next = old.Next
		}
		return nil
	}
	spec, err := Parse(s, s.Since)
	if err == nil {
		s.Next = spec.Next(now)
	}
	return err
}

// Names are the names of schedules, without those that no schedule can have: Agree refuses these.
func Names(list []dibs.Schedule) []string {
	names := make([]string, 0, len(list))
	for _, s := range list {
		if checks.Name("name", s.Name) == nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// Named checks the names of schedules that are asked for.
func Named(names []string) error {
	if len(names) > dibs.MaxSchedules {
		return invalid("names", "must be at most %d, got %d", dibs.MaxSchedules, len(names))
	}
	for i, name := range names {
		if err := checks.Name(fmt.Sprintf("names[%d]", i), name); err != nil {
			return err
		}
	}
	return nil
}

// Agree says what makes an owner's schedules those of the list, which it checks: which to
// store, and the names of those to delete. old are all schedules.
func Agree(owner string, list, old []dibs.Schedule, now time.Time, limit func(string) (int, error)) (put []dibs.Schedule, gone []string, err error) {
	before, listed := map[string]*dibs.Schedule{}, map[string]bool{}
	for i := range old {
		before[old[i].Name] = &old[i]
	}
	for i := range list {
		b := before[list[i].Name]
		s, err := check(list[i], b, limit)
		switch {
		case err != nil:
		case listed[s.Name]:
			err = invalid("name", "%q is listed twice", s.Name)
		case b != nil && b.Owner != owner && b.Owner == "":
			err = invalid("name", "%q exists, and is in nobody's list; delete it first", s.Name)
		case b != nil && b.Owner != owner:
			err = invalid("name", "%q is in the list of %q", s.Name, b.Owner)
		}
		if err != nil {
			return nil, nil, inList(err, i)
		}
		listed[s.Name] = true
		if s.Owner = owner; b != nil {
			s.Paused = b.Paused
		}
		if err := place(&s, b, now); err != nil {
			return nil, nil, err
		}
		put = append(put, s)
	}
	left := len(old)
	for _, s := range old {
		if s.Owner == owner && !listed[s.Name] {
			gone = append(gone, s.Name)
		}
	}
	for name := range listed {
		if before[name] == nil {
			left++
		}
	}
	if left -= len(gone); left > dibs.MaxSchedules {
		return nil, nil, invalid("s", "would make %d schedules of all owners; a database can have %d", left, dibs.MaxSchedules)
	}
	return put, gone, nil
}

func inList(err error, i int) error {
	var e *dibs.InvalidError
	if errors.As(err, &e) {
		return &dibs.InvalidError{Field: fmt.Sprintf("schedules[%d]%s", i, strings.TrimPrefix(e.Field, "schedule")), Reason: e.Reason}
	}
	return err
}

// Owner checks an owner's name.
func Owner(name string) error { return checks.Name("owner", name) }

// The members of a job's metadata that name its schedule and tick.
const (
	scheduleMember = "dibs.schedule"
	tickMember     = "dibs.tick"

	// jobPrefix begins the metadata of each job of a schedule. Nobody else's begins with it: checks.Jobs and the SQL of
	// the schemas refuse such members.
	jobPrefix = `{"` + scheduleMember + `":`
)

// Job is the job of a schedule's tick, ready to be stored. A tick that is zero stands for a
// run by hand, which has none.
func Job(s *dibs.Schedule, tick time.Time) checks.Row {
	payload, _ := s.Payload.(json.RawMessage) // check has made it one
	r := checks.Row{
		Queue: s.Queue, Kind: s.Kind, Payload: payload, Metadata: metadata(s, tick),
		Priority: int16(*s.Priority), MaxAttempts: s.MaxAttempts, Group: s.Group, RunAt: tick,
	}
	if !tick.IsZero() && s.Jitter > 0 {
		r.RunAt = tick.Add(rand.N(s.Jitter + 1))
	}
	return r
}

// Unreadable lists what is wrong with the schedules that cannot be read.
func Unreadable(list []dibs.Schedule) (found []string) {
	for i := range list {
		if _, err := Parse(&list[i], list[i].Since); err != nil {
			found = append(found, fmt.Sprintf("schedule %s: %v; set it again, or delete it", list[i].Name, err))
		}
	}
	return found
}

// UnreadableOf lists what is wrong with the schedules of a database. It loads them one by one, since their payloads may
// be large.
func UnreadableOf(ctx context.Context, load func(ctx context.Context, names ...string) ([]dibs.Schedule, error)) (found []string, err error) {
	all, err := load(ctx)
	for i := 0; i < len(all) && err == nil; i++ {
		var whole []dibs.Schedule
		whole, err = load(ctx, all[i].Name)
		found = append(found, Unreadable(whole)...)
	}
	return found, err
}

func metadata(s *dibs.Schedule, tick time.Time) []byte {
	var b bytes.Buffer
	name, _ := json.Marshal(s.Name) // a string can be encoded
	fmt.Fprintf(&b, "%s%s", jobPrefix, name)
	if !tick.IsZero() {
		fmt.Fprintf(&b, ",%q:%q", tickMember, tick.UTC().Format(time.RFC3339Nano))
	}
	own := bytes.TrimSpace(s.Metadata)
	if own = bytes.TrimSpace(bytes.TrimPrefix(own, []byte("{"))); len(own) > 0 && own[0] != '}' {
		b.WriteByte(',')
	}
	if len(own) == 0 {
		own = []byte("}")
	}
	b.Write(own)
	return b.Bytes()
}

// Read fills in the Schedule and Tick of a job from its metadata.
func Read(j *dibs.RawJob) {
	if s, t, ok := tickIn(j.Metadata); ok {
		j.Schedule, j.Tick = s, t
	}
}

func tickIn(metadata []byte) (schedule string, tick time.Time, ok bool) {
	if !bytes.HasPrefix(metadata, []byte(jobPrefix)) {
		return "", time.Time{}, false
	}
	var members struct {
		Schedule *string   `json:"dibs.schedule"`
		Tick     time.Time `json:"dibs.tick"`
	}
	if json.Unmarshal(metadata, &members) != nil || members.Schedule == nil {
		return "", time.Time{}, false
	}
	return *members.Schedule, members.Tick, true
}

// NextTicks lists a schedule's next ticks.
func NextTicks(s *dibs.Schedule, n int, now time.Time) ([]time.Time, error) {
	if n < 1 || n > dibs.MaxNextTicks {
		return nil, &dibs.InvalidError{Field: "n", Reason: fmt.Sprintf("must be 1 to %d, got %d", dibs.MaxNextTicks, n)}
	}
	since := s.Since
	if since.IsZero() {
		since = now
	}
	spec, err := Parse(s, since)
	if err != nil {
		return nil, err
	}
	list := make([]time.Time, 0, n)
	for t := spec.Next(now); !t.IsZero() && len(list) < n; t = spec.Next(t) {
		list = append(list, t)
	}
	return list, nil
}

// Encode returns what stores keep of a schedule's settings and jobs: metadata is nil if there
// is none. The other fields have columns of their own.
func Encode(s *dibs.Schedule) (settings, payload string, metadata *string) {
	kept := *s
	kept.Name, kept.Owner, kept.Payload, kept.Metadata, kept.Paused = "", "", nil, nil, false
	kept.Next, kept.LastTick, kept.LastJob, kept.Since = time.Time{}, time.Time{}, 0, time.Time{}
	text, _ := json.Marshal(kept) // its fields can be encoded
	if len(s.Metadata) > 0 {
		m := string(s.Metadata)
		metadata = &m
	}
	raw, _ := s.Payload.(json.RawMessage) // check has made it one
	return string(text), string(raw), metadata
}

const unreadable = "unreadable: "

// Decode is the reverse. What SQL by hand has left may make no job: such a schedule has a spec
// that says why, and no ticks, as no program can read that.
func Decode(name string, settings, payload, metadata []byte) (s dibs.Schedule) {
	err := json.Unmarshal(settings, &s)
	if s.Name = name; payload != nil {
		s.Payload = json.RawMessage(payload)
	}
	if len(metadata) > 0 {
		s.Metadata = metadata
	}
	if err == nil {
		s, err = checkAllBut(s, &s, noLimit)
	}
	if payload == nil { // it was not asked for; set again, such a schedule is refused
		s.Payload = json.RawMessage(nil)
	}
	if err != nil {
		s.Spec, s.Payload, s.Metadata = unreadable+err.Error(), nil, nil
	}
	return s
}
