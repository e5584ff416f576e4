package jobs

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/wire"
)

// readAll reads text as jobs of a format. It returns the valid jobs and the number of broken ones, and
// checks that these have an error with a text, and that line numbers grow.
func readAll(t *testing.T, form format, text string) (jobs []dibs.NewJob, broken int, err error) {
	t.Helper()
	next, err := form.read(cmdline.NewInput(strings.NewReader(text)), dibs.NewJob{Queue: "base", Group: "g"})
	if err != nil {
		return nil, 0, err
	}
	last := 0
	for {
		r, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return jobs, broken, nil
		case err != nil:
			return jobs, broken, err
		case r.line <= last || r.line > strings.Count(text, "\n")+1:
			t.Errorf("%s %q: line %d comes after line %d", form, text, r.line, last)
		case r.err != nil && r.err.Error() == "":
			t.Errorf("%s %q: line %d is broken by nothing", form, text, r.line)
		}
		if last = r.line; r.err != nil {
			broken++
			continue
		}
		jobs = append(jobs, r.job)
	}
}

// Each line of text that is not blank is one job with all of its characters, or is refused.
func FuzzLines(f *testing.F) {
	for _, text := range []string{"", "a\nb\r\n\n c \n", "\ufeffa\n", "\xff\nb", "a\x00b", `{"a":"<&>"}`, "{\"a\":1}\n2\n\"x", "\u2028\n\r\r\n", "null\n\ufeffnull"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var lines []string
		for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
			if line = strings.TrimSuffix(line, "\r"); len(bytes.TrimSpace([]byte(line))) > 0 {
				lines = append(lines, line)
			}
		}
		if first, _, _ := strings.Cut(text, "\n"); strings.TrimSpace(first) == "\ufeff" {
			t.Skip("a mark alone is a line of its own")
		}
		for _, form := range []format{formatLines, formatJSONL} {
			jobs, broken, err := readAll(t, form, text)
			if err != nil || len(jobs)+broken != len(lines) {
				t.Fatalf("%s %q: %d jobs and %d broken of %d lines, %v", form, text, len(jobs), broken, len(lines), err)
			}
			good := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return form == formatLines && !utf8.ValidString(line) })
			if len(good) != len(jobs) {
				t.Fatalf("%s %q: %d lines are jobs, want %d", form, text, len(jobs), len(good))
			}
			for i, job := range jobs {
				payload := string(job.Payload.(json.RawMessage))
				if form == formatLines {
					if err := json.Unmarshal([]byte(payload), &payload); err != nil {
						t.Fatal(err)
					}
				} else {
					good[i] = string(bytes.TrimSpace([]byte(good[i])))
				}
				if payload != good[i] || job.Queue != "base" {
					t.Errorf("%s %q becomes %q", form, good[i], payload)
				}
			}
		}
	})
}

// A job in JSON stays the same when it is written and read again. A refusal gives the reason in the words
// of JSON and of dibs, not of Go.
func FuzzJobs(f *testing.F) {
	for _, text := range []string{
		`{"queue":"q","kind":"k","payload":{"a":[1,"x"]},"metadata":{"t":"u"},"priority":5,"delay":1.5,"max_attempts":3,"group":"g","unique_key":"u","unique_until":"claimed"}`,
		`{"unique_key":"u","unique_for":"1h","if_held":"push","delay":1,"delay_limit":60}`, `{"unique_key":"u","unique_window":"day in Europe/Berlin"}`,
		`{"ref":"page","after":["page","x",17,{"ref":"a","on":"ended"},{"id":3,"on":"failed"}]}`, `{"after":[]}`, `{"after":[0]}`, `{"after":[{"on":"failed"}]}`, `{"after":[{"id":1},{"id":1,"on":"failed"}]}`,
		`{"payload":null,"run_at":"2026-11-21T08:30:00Z"}`, `{"delay":"1d12h"}`, `{"delay":1e300}`, `{"priority":1.5}`, `{"priority":"high"}`, `{"queue":7}`, `{"run_at":"soon"}`,
		`{"nope":1}`, `{"queue":"a","QUEUE":"b"}`, `{"queue":"a"} {"queue":"b"}`, `{"queue":`, `{"queue":"a"}]`, `[]`, `null`, `{}`, "{\"queue\":\"\xff\"}", `{"id":1,"token":"00","ending":"completed"}`, `{"delay":-0.000000001}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		job, err := wire.ReadJob([]byte(text), dibs.NewJob{Queue: "base"})
		if err != nil {
			refusedInWords(t, text, err)
			return
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%q is taken, though it is no object: %v", text, err)
		}
		if err := validate(job, nil); err != nil {
			refusedInWords(t, text, err)
			return
		}
		again, err := wire.ReadJob(written(t, job), dibs.NewJob{})
		if err != nil || !sameJob(job, again) {
			t.Errorf("%q is read as %+v, and written as %+v, %v", text, job, again, err)
		}
	})
}

// refusedInWords checks that a reason has no words of Go.
func refusedInWords(t *testing.T, text string, err error) {
	t.Helper()
	var invalid *dibs.InvalidError
	if !errors.As(err, &invalid) || invalid.Field == "" || invalid.Reason == "" {
		t.Fatalf("%q is refused by %#v", text, err)
	}
	for _, word := range []string{"Go ", "struct", "main.", "json:", "unmarshal", "float64", "int64", "%!"} {
		if strings.Contains(err.Error(), word) && !strings.Contains(text, word) {
			t.Errorf("%q is refused in words of Go: %v", text, err)
		}
	}
}

// written formats a job as a line of --jobs with all of its fields.
func written(t *testing.T, job dibs.NewJob) []byte {
	t.Helper()
	fields := map[string]any{
		"queue": job.Queue, "kind": job.Kind, "payload": job.Payload, "priority": job.Priority, "delay": job.Delay.String(),
		"max_attempts": job.MaxAttempts, "group": job.Group, "unique_key": job.UniqueKey, "unique_until": job.UniqueUntil,
		"unique_window": job.UniqueWindow, "if_held": job.IfHeld, "delay_limit": job.DelayLimit.String(),
	}
	if job.Ref != "" {
		fields["ref"] = job.Ref
	}
	if job.After != nil {
		after := make(wire.Deps, len(job.After))
		for i, d := range job.After {
			after[i] = wire.Dep{Ref: d.Ref, ID: d.ID, On: d.On}
		}
		fields["after"] = after
	}
	if job.UniqueFor != 0 {
		fields["unique_for"] = job.UniqueFor.String()
	}
	if !job.RunAt.IsZero() {
		delete(fields, "delay")
		fields["run_at"] = job.RunAt
	}
	if job.Metadata != nil {
		fields["metadata"] = job.Metadata
	}
	line, err := json.Marshal(fields)
	if err != nil {
		t.Fatalf("%+v: %v", job, err)
	}
	return line
}

// sameJob compares jobs, but ignores the layout of JSON.
func sameJob(a, b dibs.NewJob) bool {
	for _, job := range []*dibs.NewJob{&a, &b} {
		var payload any
		if raw, ok := job.Payload.(json.RawMessage); ok && json.Unmarshal(raw, &payload) == nil {
			job.Payload = payload
		}
		var metadata any
		if json.Unmarshal(job.Metadata, &metadata) == nil {
			job.Metadata, _ = json.Marshal(metadata)
		}
		job.RunAt = job.RunAt.UTC()
	}
	return reflect.DeepEqual(a, b)
}

// Each row of CSV is a job whose payload has exactly the columns without an @, or is refused.
// Rows written again as CSV give the same jobs.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{
		"a,b\n1,2\n", "@queue,@kind,to\nq,k,ann\n,,bob\n", "\ufeffa\n\"x\ny\"\n", "a,a\n", "a,\n", "@nope\n1\n", "a,b\n1\n", "a\n\"x", "", "@priority,@delay,@run_at,@max_attempts\n5,1d,2026-11-21,3\nx,y,z,w\n",
		"a;b\n1;2\n", "a\n\xff\n", "@metadata,@group,@unique_key,@unique_until\n{},g,u,claimed\n", "a\r\n1\r\n\r\n2", "a,b\n 1 ,\t2\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		jobs, broken, err := readAll(t, formatCSV, text)
		if err != nil || broken > 0 || len(jobs) == 0 {
			return
		}
		r := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
		rows, err := r.ReadAll()
		if err != nil || len(rows) != len(jobs)+1 {
			t.Fatalf("%q has %d rows, and gives %d jobs: %v", text, len(rows), len(jobs), err)
		}
		for i, job := range jobs {
			want := map[string]string{}
			for at, name := range rows[0] {
				if name[0] != '@' {
					want[name] = rows[i+1][at]
				}
			}
			var got map[string]string
			if err := json.Unmarshal(job.Payload.(json.RawMessage), &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("row %q becomes %v, %v", rows[i+1], got, err)
			}
		}
		if len(rows[0]) == 1 && slices.ContainsFunc(rows, func(row []string) bool { return row[0] == "" }) {
			return // the writer would write a blank line
		}
		var again strings.Builder
		if err := csv.NewWriter(&again).WriteAll(rows); err != nil {
			t.Fatal(err)
		}
		if second, broken, err := readAll(t, formatCSV, again.String()); err != nil || broken > 0 || !reflect.DeepEqual(jobs, second) {
			t.Errorf("%q, written as %q, becomes %+v, %d broken, %v", text, again.String(), second, broken, err)
		}
	})
}

// A line of 'dibs finish' is accepted only if none of its fields is lost. It stays the same when it is written and read again.
func FuzzOutcomes(f *testing.F) {
	for _, text := range []string{
		`{"id":17,"token":"0123456789abcdef0123456789abcdef","ending":"completed","result":{"sent":true}}`, `{"id":18,"token":"xx","ending":"retry","error":"timed out","delay":90}`,
		`{"key":"a","ending":"dead"}`, `{"id":1,"id":2}`, `{"id":"1"}`, `null`, `[]`, `{"id":1,"queue":"q","state":"running","payload":[],"attempt":2}`, `{"id":1}{}`, `{"id":1}}`, `{"errors":[{"at":"x"}]}`,
	} {
		f.Add(text)
	}
	f.Add(`{"":"8"}`)
	// A byte that is no UTF-8 becomes three.
	known := len(wire.Reason(wire.ReadObject([]byte(`{"":0}`), new(outcomeJSON)))) // it lists all fields
	f.Fuzz(func(t *testing.T, text string) {
		var o, again outcomeJSON
		if err := wire.ReadObject([]byte(text), &o); err != nil {
			if reason := wire.Reason(err); reason == "" || len(reason) > 3*len(text)+max(known, 300) {
				t.Errorf("%q is refused by %q", text, reason)
			}
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%q is taken, though it is no object: %v", text, err)
		}
		line, err := json.Marshal(o)
		if err != nil {
			t.Skip("holds JSON or a time that cannot be written")
		}
		if err := wire.ReadObject(line, &again); err != nil || again.name() != o.name() || again.Token != o.Token || again.Ending != o.Ending || again.Error != o.Error {
			t.Errorf("%q is read as %+v, and written as %s: %v", text, o, line, err)
		}
	})
}

// A duration or a time stays the same when it is written and read again, in flags and in JSON.
func FuzzDurationAndTime(f *testing.F) {
	for _, text := range []string{"250ms", "14d", "336h", "1d12h", "-5s", "1.5h", "4294967295d", "106751d23h47m16s", "1d-1h", "µ", "2026-12-31T23:59:00Z", "2026-12-31 23:59", "now", "0001-01-01", "9999-12-31T23:59:59.999999999+14:00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := wire.ParseDuration(text); err == nil {
			if back, err := wire.ParseDuration(wire.FormatDuration(d)); err != nil || back != d {
				t.Errorf("%q is %v, written %q, and read as %v, %v", text, d, wire.FormatDuration(d), back, err)
			}
			raw, err := json.Marshal(wire.Seconds(d))
			if err != nil {
				t.Fatal(err)
			}
			var back wire.Seconds
			if err := json.Unmarshal(raw, &back); d.Abs() < dibs.MaxDelay && (err != nil || (d-time.Duration(back)).Abs() > time.Microsecond) {
				t.Errorf("%v is %s s, and read as %v, %v", d, raw, time.Duration(back), err)
			}
		} else if len(err.Error()) > 250 {
			t.Errorf("%q is refused by %q", text, err)
		}
		if at, err := cmdline.ParseTime(text); err == nil {
			if back, err := cmdline.ParseTime(at.Format(time.RFC3339Nano)); err != nil || !back.Equal(at) {
				t.Errorf("%q is %v, and read as %v, %v", text, at, back, err)
			}
		}
	})
}
