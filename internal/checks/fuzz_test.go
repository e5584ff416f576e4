package checks_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// unprintable reports, by Unicode's own tables, whether a character may not be in a name.
func unprintable(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

func FuzzName(f *testing.F) {
	for _, s := range []string{
		"", "emails", "größer", "a\x00b", "a\nb", "a\xffb", "a\u202eb", "a\u2028b", "\u009b31m", "a\u200fb", "postgres://u:S3CRET@h/db", "://",
		strings.Repeat("x", dibs.MaxName), strings.Repeat("x", dibs.MaxName+1), strings.Repeat("ä", dibs.MaxName/2) + "ä",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fits := s != "" && len(s) <= dibs.MaxName && utf8.ValidString(s) && strings.IndexFunc(s, unprintable) < 0
		for _, field := range []string{"queue", "kind"} {
			url := field == "queue" && strings.Contains(s, "://")
			err := checks.Name(field, s)
			if (err == nil) != (fits && !url) {
				t.Errorf("%s %q: %v", field, s, err)
			}
			if err == nil {
				continue
			}
			refusedFor(t, err, field)
			if url && err.Error() != checks.Name(field, "://").Error() {
				t.Errorf("%q may hold a password, and is told of: %v", s, err)
			}
		}
	})
}

// refusedFor wants an error that names the field, and can be printed as it is.
func refusedFor(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *dibs.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field || invalid.Reason == "" {
		t.Errorf("refused by %#v, which does not name %s", err, field)
	}
	if text := err.Error(); !utf8.ValidString(text) || strings.IndexFunc(text, unprintable) >= 0 || len(text) > 1000 {
		t.Errorf("an error that cannot be printed: %q", text)
	}
}

// An accepted job keeps every limit, and is accepted again as it is stored. The error for a
// refused job names a field that breaks its rule.
func FuzzJob(f *testing.F) {
	f.Add("q", "k", `{"a":1}`, `{"trace":"x"}`, 5, int64(time.Hour), int64(0), 3, "g", "u", "claimed")
	f.Add("", "k", "null", "", -1, int64(-1), int64(0), -1, "", "", "")
	f.Add("q", "", "{", "[]", 40000, int64(1<<62), int64(1), 1<<30, "\x00", strings.Repeat("u", 600), "noon")
	f.Add("postgres://u:p@h/x", "k", "1 2", `{"a"`, 0, int64(0), int64(1<<62), 0, "g", "", "finished")
	f.Fuzz(func(t *testing.T, queue, kind, payload, metadata string, priority int, delay, runAt int64, attempts int, group, key, until string) {
		j := dibs.NewJob{
			Queue: queue, Kind: kind, Payload: json.RawMessage(payload), Metadata: json.RawMessage(metadata), Priority: &priority,
			Delay: time.Duration(delay), MaxAttempts: attempts, Group: group, UniqueKey: key, UniqueUntil: dibs.UniqueUntil(until),
		}
		if runAt != 0 {
			j.RunAt = time.Unix(runAt, 0)
		}
		limit := func(string) (int, error) { return 100, nil }
		rows, err := checks.Jobs([]dibs.NewJob{j}, limit)
		broken := brokenRules(&j, 100)
		if err != nil {
			var invalid *dibs.InvalidError
			if !errors.As(err, &invalid) || !broken[strings.TrimPrefix(invalid.Field, "jobs[0].")] {
				t.Fatalf("%+v is refused by %v, but breaks %v", j, err, broken)
			}
			refusedFor(t, err, invalid.Field)
			return
		}
		if len(broken) > 0 {
			t.Fatalf("%+v is accepted, but breaks %v", j, broken)
		}
		r := rows[0]
		stored := int(r.Priority)
		again, err := checks.Jobs([]dibs.NewJob{{
			Queue: r.Queue, Kind: r.Kind, Payload: r.Payload, Metadata: r.Metadata, Priority: &stored, Delay: r.Delay,
			RunAt: r.RunAt, MaxAttempts: r.MaxAttempts, Group: r.Group, UniqueKey: r.UniqueKey, UniqueUntil: r.UniqueUntil, IfHeld: r.IfHeld,
		}}, limit)
		if err != nil || !reflect.DeepEqual(rows, again) {
			t.Errorf("%+v becomes %+v, %v", r, again, err)
		}
		if stored != priority || string(r.Payload) != payload || r.UniqueKey != key || r.Group != group {
			t.Errorf("%+v is stored as %+v", j, r)
		}
	})
}

// brokenRules lists the fields of a job that break the documentation of dibs.NewJob.
func brokenRules(j *dibs.NewJob, payloadLimit int) map[string]bool {
	text := func(s string, most int) bool {
		return len(s) <= most && utf8.ValidString(s) && strings.IndexFunc(s, unprintable) < 0
	}
	jsonText := func(raw any, most int) bool {
		text := raw.(json.RawMessage)
		return len(text) <= most && utf8.Valid(text) && json.Valid(text)
	}
	metadata := bytes.TrimLeft(j.Metadata, " \t\r\n")
	rules := map[string]bool{
		"queue":        text(j.Queue, dibs.MaxName) && !strings.Contains(j.Queue, "://"),
		"kind":         j.Kind != "" && text(j.Kind, dibs.MaxName),
		"group":        text(j.Group, dibs.MaxName),
		"unique_key":   text(j.UniqueKey, dibs.MaxUniqueKey),
		"unique_until": j.UniqueUntil == "" || j.UniqueKey != "" && (j.UniqueUntil == dibs.UntilFinished || j.UniqueUntil == dibs.UntilClaimed),
		"max_attempts": j.MaxAttempts >= 0 && j.MaxAttempts <= 1_000_000,
		"delay":        j.Delay >= 0 && j.Delay <= dibs.MaxDelay && (j.Delay == 0 || j.RunAt.IsZero()),
		"run_at":       j.RunAt.IsZero() || j.RunAt.Year() >= 1 && j.RunAt.Year() <= 9999,
		"priority":     *j.Priority >= 0 && *j.Priority <= dibs.MaxPriority,
		"payload":      jsonText(j.Payload, payloadLimit),
		"metadata":     len(j.Metadata) == 0 || jsonText(json.RawMessage(j.Metadata), dibs.MaxMetadata) && metadata[0] == '{',
	}
	broken := map[string]bool{}
	for field, kept := range rules {
		if !kept {
			broken[field] = true
		}
	}
	return broken
}

// Any error text of a handler is kept in a form that every database can store and every
// terminal can print.
func FuzzErrorText(f *testing.F) {
	for _, s := range []string{"", "timed out", "a\x00b", "\xff\xfe", "\u202e\u009b31m\n\t", `{"a":"\u2028"}`, strings.Repeat("ä", dibs.MaxErrorText), strings.Repeat("x", dibs.MaxErrorText-1) + "ä"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kept := checks.ErrorText(s)
		if len(kept) > dibs.MaxErrorText || !utf8.ValidString(kept) || strings.Contains(kept, "\x00") || checks.ErrorText(kept) != kept {
			t.Errorf("%q is kept as %q", s, kept)
		}
		if fits := len(s) <= dibs.MaxErrorText && utf8.ValidString(s) && !strings.Contains(s, "\x00"); fits && kept != s {
			t.Errorf("%q becomes %q, though it fits", s, kept)
		}
		shown := checks.Escaped(s)
		if !utf8.ValidString(shown) || strings.IndexFunc(shown, func(r rune) bool { return unprintable(r) && r != '\n' && r != '\t' }) >= 0 {
			t.Errorf("%q is shown as %q", s, shown)
		}
		var was, is any
		var line bytes.Buffer // JSON is written without blanks between its parts
		if utf8.ValidString(s) && json.Unmarshal([]byte(s), &was) == nil && json.Compact(&line, []byte(s)) == nil {
			shown := checks.Escaped(line.String())
			if err := json.Unmarshal([]byte(shown), &is); err != nil || !reflect.DeepEqual(was, is) {
				t.Errorf("the JSON %q is shown as %q", s, shown)
			}
		}
	})
}
