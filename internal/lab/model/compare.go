package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Same compares all that others can see. During an open transaction that is the database
// as it was before.
func (r *Run) Same() {
	m := r.m
	if r.txStart != nil {
		m = r.txStart
		m.now = r.m.now
	}
	for _, state := range []dibs.State{"", dibs.Completed, dibs.Dead, dibs.Cancelled} {
		r.list(m, admin.Filter{State: state, Limit: 1000})
	}
	stats, err := r.db.Stats(r.ctx)
	r.must(err)
	for i := range stats {
		stats[i].OldestAge = stats[i].OldestAge.Round(grid)
		stats[i].Window, stats[i].AvgWait, stats[i].AvgRun, stats[i].Throughput = 0, 0, 0, 0 // measured by the real clock
	}
	want := m.Stats()
	for i := range want {
		want[i].OldestAge = want[i].OldestAge.Round(grid)
	}
	r.same("Stats", stats, want)
	found, err := r.db.Check(r.ctx)
	r.must(err)
	if len(found) > 0 {
		r.fail("Check found %q", found)
	}
}

// list compares a list. Jobs that finished in one call may come in any order.
func (r *Run) list(m *Model, f admin.Filter) {
	var got []*dibs.RawJob
	for {
		page, err := r.db.List(r.ctx, f)
		r.must(err)
		got = append(got, page.Jobs...)
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	finished := func(j *dibs.RawJob) time.Time {
		if ours := m.jobs[r.ourID(j.ID)]; ours != nil {
			return ours.FinishedAt
		}
		return time.Time{}
	}
	if f.State.Final() {
		for i := range got {
			for k := i; k > 0 && finished(got[k]).Equal(finished(got[k-1])) && got[k].ID > got[k-1].ID; k-- {
				got[k], got[k-1] = got[k-1], got[k]
			}
		}
	}
	r.sameJobs("List "+string(f.State), got, m.List(f))
}

// sameJobs compares jobs and their order.
func (r *Run) sameJobs(op string, got, want []*dibs.RawJob) {
	show := func(jobs []*dibs.RawJob) (lines []string) {
		for _, j := range jobs {
			text, err := json.Marshal(j)
			r.must(err)
			lines = append(lines, fmt.Sprintf("%s payload %s", text, j.Payload)) // MarshalJSON compacts the payload
		}
		return lines
	}
	ours := []*dibs.RawJob{}
	for _, j := range got {
		ours = append(ours, r.ourJob(*j))
	}
	rounded := []*dibs.RawJob{}
	for _, j := range want {
		rounded = append(rounded, round(*j))
	}
	a, b := show(ours), show(rounded)
	if !slices.Equal(a, b) {
		r.fail("%s:\n got %s\nwant %s", op, strings.Join(a, "\n     "), strings.Join(b, "\n     "))
	}
}

// grid divides all times in the model, except for the microseconds that order calls. Times
// of the store are rounded to it.
const grid = 30 * time.Minute

func (r *Run) ourJob(j dibs.RawJob) *dibs.RawJob {
	j.ID, j.Flow, j.Cause = r.ourID(j.ID), r.ourID(j.Flow), r.ourID(j.Cause)
	if !j.Token.IsZero() {
		j.Token = Token(slices.Index(r.tokens, j.Token) + 1)
	}
	now := time.Now()
	for _, t := range times(&j) {
		if !t.IsZero() {
			*t = r.m.now.Add(t.Sub(now))
		}
	}
	return round(j)
}

// round rounds a job's times. It drops the times of its errors, which Pass does not move.
func round(j dibs.RawJob) *dibs.RawJob {
	for _, t := range times(&j) {
		*t = t.Round(grid)
	}
	j.Errors = slices.Clone(j.Errors)
	for i := range j.Errors {
		e := &j.Errors[i] // its times stay as they are while the database's others are moved
		e.RunAt, e.ClaimedAt, e.At = time.Time{}, time.Time{}, time.Time{}
	}
	return &j
}

func times(j *dibs.RawJob) []*time.Time {
	return []*time.Time{&j.RunAt, &j.CreatedAt, &j.ClaimedAt, &j.LeaseUntil, &j.FinishedAt, &j.UniqueFreeAt}
}

// In returns the time d from now.
func (r *Run) In(d time.Duration) time.Time { return r.m.now.Add(d) }

func (r *Run) theirTime(t time.Time) time.Time { return time.Now().Add(t.Sub(r.m.now)) }

func (r *Run) theirID(id int64) int64 {
	if id > int64(len(r.ids)) {
		return absentID + id
	}
	return r.ids[id-1]
}

func (r *Run) theirIDs(ids []int64) []int64 {
	theirs := make([]int64, len(ids))
	for i, id := range ids {
		theirs[i] = r.theirID(id)
	}
	return theirs
}

func (r *Run) ourID(id int64) int64 {
	if id > absentID {
		return id - absentID
	}
	return int64(slices.Index(r.ids, id)) + 1
}

// absentID is above the ids of all jobs, and is added to ids that the store does not have.
const absentID = 1 << 40

func (r *Run) ourIDs(ids []int64) (ours []int64) {
	for _, id := range ids {
		ours = append(ours, r.ourID(id))
	}
	return sorted(ours)
}

func (r *Run) theirToken(t dibs.Token) dibs.Token {
	for n, theirs := range r.tokens {
		if Token(n+1) == t {
			return theirs
		}
	}
	return t
}

func sorted(ids []int64) []int64 {
	slices.Sort(ids)
	return ids
}

// same compares answers of any type.
func (r *Run) same(what string, got, want any) {
	if a, b := reflect.ValueOf(got), reflect.ValueOf(want); a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		r.fail("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// sameError compares errors of bad input.
func (r *Run) sameError(got, want error) {
	var a, b *dibs.InvalidError
	if errors.As(want, &b) && errors.As(got, &a) {
		r.same("error", *a, *b)
	} else if want != nil {
		r.fail("got error %v, want %v", got, want)
	} else {
		r.must(got)
	}
}

func (r *Run) must(err error) {
	if err != nil {
		r.fail("%v", err)
	}
}

func (r *Run) fail(format string, args ...any) {
	r.t.Helper()
	code := "Start"
	if n := len(r.calls); n > 0 {
		code = r.calls[n-1].code
	}
	r.t.Fatalf("%s: %s", code, fmt.Sprintf(format, args...))
}

func list[T any](items []T) (args []any) {
	for _, i := range items {
		args = append(args, i)
	}
	return args
}

// log records a call with the Go code that makes it.
func (r *Run) log(method string, args ...any) {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = r.code(reflect.ValueOf(a))
	}
	r.calls = append(r.calls, call{method, args, "r." + method + "(" + strings.Join(texts, ", ") + ")"})
}

// Code returns the calls so far as Go code, one line each.
func (r *Run) Code() (lines []string) {
	for _, c := range r.calls {
		lines = append(lines, c.code)
	}
	return lines
}

// code formats a value as Go code.
func (r *Run) code(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return duration(x)
	case time.Time:
		return "r.In(" + duration(x.Sub(r.m.now).Round(grid)) + ")"
	case dibs.Token:
		for n := range len(r.tokens) + 2 {
			if Token(n) == x {
				return fmt.Sprintf("model.Token(%d)", n)
			}
		}
	case json.RawMessage:
		return fmt.Sprintf("json.RawMessage(%q)", x)
	}
	switch v.Kind() {
	case reflect.Pointer:
		inner := r.code(v.Elem())
		if k := v.Elem().Kind(); v.Elem().Type() != reflect.TypeFor[time.Duration]() && k == reflect.String {
			inner = v.Elem().Type().String() + "(" + inner + ")"
		} else if k == reflect.Struct && v.Elem().Type() != reflect.TypeFor[time.Time]() {
			return "&" + inner
		}
		if inner == "0" && v.Elem().Type() == reflect.TypeFor[time.Duration]() {
			inner = "time.Duration(0)"
		}
		return "new(" + inner + ")"
	case reflect.Interface:
		return r.code(v.Elem())
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				fields = append(fields, v.Type().Field(i).Name+": "+r.code(f))
			}
		}
		return v.Type().String() + "{" + strings.Join(fields, ", ") + "}"
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			item := r.code(v.Index(i))
			if v.Type().Elem().Kind() == reflect.Struct { // gofmt leaves out their type
				item = strings.TrimPrefix(item, v.Type().Elem().String())
			}
			items = append(items, item)
		}
		return v.Type().String() + "{" + strings.Join(items, ", ") + "}"
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	}
	return fmt.Sprint(v.Interface())
}

func duration(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d%time.Hour == 0:
		return fmt.Sprintf("%d*time.Hour", d/time.Hour)
	}
	return fmt.Sprintf("%d*time.Minute", d/time.Minute)
}
