package sqlite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// badColumns are values, as SQL, that an insert refuses, and what its error says.
var badColumns = []struct{ columns, values, want string }{
	{"queue", `printf('%0256d', 0)`, "queue: is over the limit of 255 bytes"},
	{"queue", `'postgres://u:S3CRET@h/db'`, "queue: must not contain ://: the URL of a database goes to --db"},
	{"queue", `x'61'`, "queue: must be text"},
	{"queue", `1.5`, "queue: must be text"},
	{"queue", `zeroblob(100000000)`, "queue: must be text"},
	{"kind", `'a' || char(0) || 'b'`, "kind: must not contain control characters"},
	{"kind", `char(0)`, "kind: must not contain control characters"},
	{"kind", `'é' || char(155) || '31m'`, "kind: must not contain control characters"},
	{"kind", `cast(x'ff' as text)`, "kind: is not valid UTF-8"},
	{"kind", `cast(x'61c328' as text)`, "kind: is not valid UTF-8"},
	{"kind", `cast(x'e282' as text)`, "kind: is not valid UTF-8"},
	{"kind", `cast(x'c0af' as text)`, "kind: is not valid UTF-8"},
	{"kind", `cast(x'e09fbf' as text)`, "kind: is not valid UTF-8"},
	{"kind", `cast(x'eda080' as text)`, "kind: is not valid UTF-8"},
	{"kind", `cast(x'f4908080' as text)`, "kind: is not valid UTF-8"},
	{"kind", `cast(x'80' as text)`, "kind: is not valid UTF-8"},
	{"kind", `cast(x'c3a4a4' as text)`, "kind: is not valid UTF-8"},
	{"group_key", `char(8238)`, "group: must not contain characters that turn the direction of text or separate lines"},
	{"group_key", `char(8232) || char(10)`, "group: must not contain characters that turn the direction of text or separate lines"},
	{"group_key", `char(8232) || char(0)`, "group: must not contain characters that turn the direction of text or separate lines"},
	{"group_key", `char(10)`, "group: must not contain control characters"},
	{"unique_key", `printf('%0513d', 0)`, "unique_key: is over the limit of 512 bytes"},
	{"unique_key", `x''`, "unique_key: must be text"},
	{"payload", `'{"a":'`, "payload: is not valid JSON"},
	{"payload", `''`, "payload: is empty; it must be JSON (null for none)"},
	{"payload", `x'6e756c6c'`, "payload: must be JSON as text"},
	{"payload", `5`, "payload: must be JSON as text"},
	{"payload", `1e999`, "payload: must be JSON as text"},
	{"payload", `'{} {}'`, "payload: is not valid JSON"},
	{"payload", `'{a:1}'`, "payload: is not valid JSON"},
	{"payload", `'[1,]'`, "payload: is not valid JSON"},
	{"payload", `'0x10'`, "payload: is not valid JSON"},
	{"payload", `'NaN'`, "payload: is not valid JSON"},
	{"payload", `'Infinity'`, "payload: is not valid JSON"},
	{"payload", `'01'`, "payload: is not valid JSON"},
	{"payload", `'/* c */ 1'`, "payload: is not valid JSON"},
	{"payload", `'"a' || char(10) || '"'`, "payload: is not valid JSON"},
	{"payload", `'null' || char(0) || '{'`, "payload: is not valid JSON"},
	{"payload", `'"' || printf('%01048575d', 0) || '"'`, "payload: is over the limit of its queue"},
	{"metadata", `'[1]'`, "metadata: must be a JSON object"},
	{"metadata", `'null'`, "metadata: must be a JSON object"},
	{"metadata", `'{"a":}'`, "metadata: is not valid JSON"},
	{"metadata", `'{"dibs.schedule":"nightly"}'`, `metadata: must not have members whose names begin with "dibs.": only dibs writes those`},
	{"metadata", `'{"a":"dibs.","Dibs.tick":"x"}'`, `metadata: must not have members whose names begin with "dibs.": only dibs writes those`},
	{"metadata", `x'7b7d'`, "metadata: must be JSON as text"},
	{"metadata", `'{"a":"' || printf('%016384d', 0) || '"}'`, "metadata: is over the limit of 16384 bytes"},
	{"priority", `-1`, "priority: must be 0 to 32767"},
	{"priority", `32768`, "priority: must be 0 to 32767"},
	{"priority", `1.5`, "priority: must be 0 to 32767"},
	{"priority", `'5x'`, "priority: must be 0 to 32767"},
	{"priority", `''`, "priority: must be 0 to 32767"},
	{"priority", `x'35'`, "priority: must be 0 to 32767"},
	{"priority", `9223372036854775807`, "priority: must be 0 to 32767"},
	{"priority", `1e999`, "priority: must be 0 to 32767"},
	{"max_attempts", `-1`, "max_attempts: must be 1 to 1000000, or 0 for the queue's"},
	{"max_attempts", `1000001`, "max_attempts: must be 1 to 1000000, or 0 for the queue's"},
	{"max_attempts", `2.5`, "max_attempts: must be 1 to 1000000, or 0 for the queue's"},
	{"max_attempts", `4294967297`, "max_attempts: must be 1 to 1000000, or 0 for the queue's"},
	{"delay", `-1`, "delay: must not be negative"},
	{"delay", `-1e-9`, "delay: must not be negative"},
	{"delay", `'1 hour'`, "delay: must be a number of seconds"},
	{"delay", `'infinity'`, "delay: must be a number of seconds"},
	{"delay", `x'31'`, "delay: must be a number of seconds"},
	{"delay", `1e999`, "delay: must be at most 87600h0m0s (315360000 seconds)"},
	{"delay", `9223372036854775807`, "delay: must be at most 87600h0m0s (315360000 seconds)"},
	{"delay", `315360000.001`, "delay: must be at most 87600h0m0s (315360000 seconds)"},
	{"delay, run_at", `1, 0`, "delay: give either delay or run_at, not both"},
	{"run_at", `'now'`, badTime},
	{"run_at", `'infinity'`, badTime},
	{"run_at", `'2030-01-01' || char(0) || 'x'`, badTime},
	{"run_at", `'tomorrow'`, badTime},
	{"run_at", `'12:00'`, badTime},
	{"run_at", `'1795451860'`, badTime},
	{"run_at", `'2460000.5'`, badTime},
	{"run_at", `'2026-02-30'`, badTime},
	{"run_at", `'2026-13-01'`, badTime},
	{"run_at", `'2026-11-23T25:00:00Z'`, badTime},
	{"run_at", `'2026-11-23 12:00 CET'`, badTime},
	{"run_at", `x'32303236'`, badTime},
	{"run_at", `'0000-12-31T23:59:59.999Z'`, "run_at: must lie in the years 1 to 9999"},
	{"run_at", `'9999-12-31T23:59:59-01:00'`, badTime},
	{"run_at", `253402300800`, "run_at: must lie in the years 1 to 9999"},
	{"run_at", `1795451860000`, "run_at: must lie in the years 1 to 9999"}, // milliseconds
	{"run_at", `-62135596801`, "run_at: must lie in the years 1 to 9999"},
	{"run_at", `9223372036854775807`, "run_at: must lie in the years 1 to 9999"},
	{"run_at", `-9223372036854775808`, "run_at: must lie in the years 1 to 9999"},
	{"run_at", `1e999`, "run_at: must lie in the years 1 to 9999"},
	{"unique_until", `'finished'`, "unique_until: needs a unique_key"},
	{"unique_for", `60`, "unique_for: needs a unique_key"},
	{"unique_window", `'day'`, "unique_window: needs a unique_key"},
	{"if_held", `'keep'`, "if_held: needs a unique_key"},
	{"delay_limit", `60`, "delay_limit: needs a unique_key"},
	{"unique_key, unique_until", `'u', 'forever'`, `unique_until: must be "finished" or "claimed"`},
	{"unique_key, unique_until", `'u', 0`, `unique_until: must be "finished" or "claimed"`},
	{"unique_key, if_held", `'u', 'merge'`, `if_held: must be "keep", "replace" or "push"`},
	{"unique_key, unique_for", `'u', -1`, "unique_for: must not be negative"},
	{"unique_key, unique_for", `'u', 'day'`, "unique_for: must be a number of seconds"},
	{"unique_key, unique_for", `'u', 1e-6`, "unique_for: must be at least 1ms (0.001 seconds)"},
	{"unique_key, unique_for", `'u', 1e99`, "unique_for: must be at most 87600h0m0s (315360000 seconds)"},
	{"unique_key, unique_for, unique_window", `'u', 1, 'day'`, "unique_window: give either unique_for or unique_window, not both"},
	{"unique_key, unique_window", `'u', 'year'`, `unique_window: must be "hour", "day", "week" or "month"`},
	{"unique_key, unique_window", `'u', 'year in UTC'`, `unique_window: must be "hour", "day", "week" or "month"`},
	{"unique_key, unique_window", `'u', 'day in Europe/Berlin'`, "unique_window: must be in UTC in SQL; give unique_for until the end of the window"},
	{"unique_key, if_held, delay_limit", `'u', 'push', 60`, `run_at: is missing: if_held "push" moves run_at on; give it or a delay`},
	{"unique_key, if_held, delay", `'u', 'push', 60`, `delay_limit: is missing: without it, if_held "push" could put a job off for ever`},
	{"unique_key, if_held, delay_limit", `'u', 'replace', 60`, "delay_limit: needs run_at or delay"},
	{"unique_key, delay, delay_limit", `'u', 60, 60`, `delay_limit: needs if_held "replace" or "push"`},
	{"unique_key, if_held, delay, delay_limit", `'u', 'push', 60, -1`, "delay_limit: must not be negative"},
	{"unique_key, if_held, delay, delay_limit", `'u', 'push', 60, 1e300`, "delay_limit: must be at most 87600h0m0s (315360000 seconds)"},
	{"unique_key, if_held, delay, delay_limit", `'u', 'push', 60, 'x'`, "delay_limit: must be a number of seconds"},
	{"after", `17`, badAfter},
	{"after", `'['`, badAfter},
	{"after", `'{}'`, badAfter},
	{"after", `'page'`, badAfter},
	{"after", `'["page"]'`, badAfter},
	{"after", `'[null]'`, badAfter},
	{"after", `'[1.5]'`, badAfter},
	{"after", `'[[1]]'`, badAfter},
	{"after", `'[{"id":"1"}]'`, badAfter},
	{"after", `'[{"on":"ended"}]'`, badAfter},
	{"after", `'[{"id":1,"on":"done"}]'`, badAfter},
	{"after", `'[{"id":1,"on":5}]'`, badAfter},
	{"after", `'[{"id":1,"onn":"ended"}]'`, badAfter},
	{"after", `'[{"id":1,"on":"ended","on":"failed"}]'`, badAfter},
	{"after", `'[0]'`, "after: there is no job with one of the ids"},
	{"after", `'[{"id":9007199254740991}]'`, "after: there is no job with one of the ids"},
	{"after", `'[1,{"id":1,"on":"ended"},{"id":1,"on":"failed"}]'`, "after: a job cannot come after one other that is both completed and failed"},
	{"unique_key, if_held, after", `'u', 'replace', '[1]'`, `after: must be empty with if_held "replace" or "push": the job that holds the key keeps what it waits for`},
}

const badAfter = `after: must be a JSON array of ids, or of objects such as {"id": 17, "on": "ended"}`

const badTime = "run_at: must be a time as 2026-11-23T16:30:00Z, or a number of seconds since 1970, not as text"

// around is an insert of three rows, of which the one in the middle is bad. The clauses of
// conflicts do not have the others inserted.
func around(clause, columns, values string) string {
	none := "null" + strings.Repeat(", null", strings.Count(columns, ","))
	return fmt.Sprintf("insert %s into dibs_new_job (%s) values (%s), (%s), (%s)", clause, columns, none, values, none)
}

func TestNewJobRefusesBadValues(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	tx, _ := begin(t, s)
	// SQLite before 3.42, which the programs of other tests may have, takes 2000 levels.
	deep := slices.Clone(badColumns[:1])
	deep[0].columns, deep[0].values, deep[0].want = "payload", `printf('%.*c%.*c', 1001, '[', 1001, ']')`, "payload: is not valid JSON"
	for i, c := range append(deep, badColumns...) {
		clause := []string{"", "or ignore", "or replace", "or fail"}[i%4]
		_, err := tx.ExecContext(t.Context(), around(clause, c.columns, c.values))
		if got := viewError(err); got == nil || got.Error() != c.want {
			t.Errorf("%s %s = %s gave %v, want %s", clause, c.columns, c.values, got, c.want)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	var rows int
	for _, table := range []string{"job", "queue", "tally", "unique_window"} {
		if err := s.DB().QueryRowContext(t.Context(), "select count(*) from dibs_"+table).Scan(&rows); err != nil || rows > 0 {
			t.Errorf("%d rows are left in %s, %v", rows, table, err)
		}
	}
}

// shell is SQLite's own program, of whatever version the system has.
func shell(t *testing.T, path, statements string) string {
	t.Helper()
	needs.Program(t, "sqlite3")
	c := exec.CommandContext(t.Context(), "sqlite3", "-batch", path)
	c.Stdin = strings.NewReader(statements)
	out, _ := c.CombinedOutput() // the tests read the errors
	return string(out)
}

func TestNewJobRefusesBadValuesOfTheShell(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	openAt(t, path, sqlite.Options{})
	for _, settings := range []string{"", "pragma recursive_triggers = on; pragma foreign_keys = on;\n.dbconfig defensive on\n"} {
		var statements strings.Builder
		statements.WriteString(settings)
		for i, c := range badColumns {
			fmt.Fprintf(&statements, ".print case %d\n%s;\n", i, around("", c.columns, c.values))
		}
		statements.WriteString("select 'left:', (select count(*) from dibs_job), (select count(*) from dibs_queue);\n")
		out := shell(t, path, statements.String())
		for i, c := range badColumns {
			_, rest, _ := strings.Cut(out, fmt.Sprintf("case %d\n", i))
			if line, _, _ := strings.Cut(rest, "\n"); !strings.Contains(line, c.want+" (19)") {
				t.Errorf("%s = %s gave %s, want %s", c.columns, c.values, line, c.want)
			}
		}
		if !strings.Contains(out, "left:|0|0") {
			t.Errorf("something is left: %s", out[max(0, len(out)-200):])
		}
	}
}

// What the view takes that Go's types do not offer.
func TestNewJobTakesWhatDriversSend(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	const columns = "queue, kind, priority, run_at > created_at, run_at, max_attempts, group_key, unique_key, payload"
	for _, c := range []struct{ columns, values, want string }{
		{"queue", `null`, "default|default|255|0||25|<nil>|<nil>|null"},
		{"queue, kind", `'', ''`, "default|default|255|0||25|<nil>|<nil>|null"},
		{"queue", `'mails'`, "mails|mails|255|0||25|<nil>|<nil>|null"},
		{"queue, group_key, unique_key", `7, 42, 43`, "7|7|255|0||25|42|43|null"},
		{"priority, max_attempts, delay", `'5', '3', '0.0'`, "default|default|5|0||3|<nil>|<nil>|null"},
		{"priority, max_attempts, delay", `5.0, 3.0, 0`, "default|default|5|0||3|<nil>|<nil>|null"},
		{"delay", `'1e1'`, "default|default|255|1||25|<nil>|<nil>|null"},
		{"run_at", `-1`, "default|default|255|0||25|<nil>|<nil>|null"},
		{"run_at", `''`, "default|default|255|0||25|<nil>|<nil>|null"},
		{"run_at", `253402300799`, "default|default|255|1|253402300799000000|25|<nil>|<nil>|null"},
		{"run_at", `4102444800.123456`, "default|default|255|1|4102444800123456|25|<nil>|<nil>|null"},
		{"run_at", `'2100-01-01'`, "default|default|255|1|4102444800000000|25|<nil>|<nil>|null"},
		{"run_at", `'2100-01-01 00:00:00'`, "default|default|255|1|4102444800000000|25|<nil>|<nil>|null"},
		{"run_at", `'2100-01-01T00:00:00.123Z'`, "default|default|255|1|4102444800123000|25|<nil>|<nil>|null"},
		{"run_at", `'2100-01-01T02:30:00.123999+02:30'`, "default|default|255|1|4102444800124000|25|<nil>|<nil>|null"},
		{"run_at", `'9999-12-31T23:59:59.999Z'`, "default|default|255|1|253402300799999000|25|<nil>|<nil>|null"},
		{"payload", `json_object('a', 1, 'b', json('[true]'))`, `default|default|255|0||25|<nil>|<nil>|{"a":1,"b":[true]}`},
		{"group_key", `char(65534) || char(65535) || char(65533) || '日本 🙂'`, "default|default|255|0||25|\ufffe\uffff\ufffd日本 🙂|<nil>|null"},
		{"metadata", `''`, "default|default|255|0||25|<nil>|<nil>|null"},
	} {
		if _, err := s.DB().ExecContext(t.Context(), fmt.Sprintf("insert into dibs_new_job (%s) values (%s)", c.columns, c.values)); err != nil {
			t.Errorf("%s = %s: %v", c.columns, c.values, err)
			continue
		}
		values := make([]any, 9)
		to := make([]any, len(values))
		for i := range values {
			to[i] = &values[i]
		}
		if err := s.DB().QueryRowContext(t.Context(), "select "+columns+" from dibs_job where id = (select id from dibs_enqueued)").Scan(to...); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, v := range values {
			if text := fmt.Sprint(v); i != 4 || strings.Contains(c.want, text) {
				got = append(got, text)
			} else {
				got = append(got, "")
			}
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s = %s gave\n%s, want\n%s", c.columns, c.values, text, c.want)
		}
	}
}

// Every millisecond of a text is kept: dates are real numbers in SQLite.
func TestNewJobKeepsMilliseconds(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	if _, err := s.DB().ExecContext(t.Context(), `insert into dibs_new_job (run_at)
		with recursive n (i) as (select 0 union all select i + 1 from n where i < 999)
		select printf('2099-12-31T23:59:59.%03dZ', i) from n`); err != nil {
		t.Fatal(err)
	}
	var wrong int
	if err := s.DB().QueryRowContext(t.Context(), "select count(*) from dibs_job where run_at <> 4102444799000000 + (id - 1) * 1000").Scan(&wrong); err != nil || wrong > 0 {
		t.Errorf("%d times are wrong, %v", wrong, err)
	}
}

// values are parts of Go's errors that triggers cannot name.
var values = regexp.MustCompile(`^is \d+ bytes, the limit (?:of queue .* )?is (\d+)$|, (?:got|has|and is) .*$|: ".*$|: (?:invalid|unexpected|json) .*$|, and may name .*$`)

// A job is refused by the view if and only if Enqueue refuses it, for the same field and, but for
// the values, in the same words.
func TestNewJobRefusesWhatEnqueueRefuses(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	dir := t.TempDir()
	byGo := openAt(t, filepath.Join(dir, "go.db"), sqlite.Options{Relaxed: true})
	byView := newViewStore(t, openAt(t, filepath.Join(dir, "view.db"), sqlite.Options{Relaxed: true}))
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			j := drawAnyJob(t)
			_, want := byGo.Enqueue(t.Context(), []dibs.NewJob{j})
			_, got := byView.Enqueue(t.Context(), []dibs.NewJob{j})
			if want == nil && got == nil {
				continue
			}
			refused++
			var a, b *dibs.InvalidError
			if !errors.As(want, &a) || !errors.As(got, &b) || a.Field != b.Field {
				t.Fatalf("%+v gave %v, by the view %v", j, want, got)
			}
			without := values.ReplaceAllString(a.Reason, "")
			if without == "" {
				without = "is over the limit of "
			}
			if !strings.HasPrefix(b.Reason, without) && !strings.HasSuffix(a.Field, "unique_window") { // the view's error about a window may leave out the time zone
				t.Fatalf("%+v gave %v, by the view %v", j, want, got)
			}
		}
	})
	if refused == 0 {
		t.Error("no job was refused")
	}
}

// drawAnyJob draws a job that may break rules.
func drawAnyJob(t *rapid.T) dibs.NewJob {
	j := drawJob(t)
	text := rapid.OneOf(
		rapid.SampledFrom([]string{"", "a\x00b", "a\xffb", "\xc3\x28", "\u0085", "é\u202e", "\u2028\n", "://", strings.Repeat("n", 256), strings.Repeat("é", 257), "\ufffe", "\xef\xbf"}),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.ByteRange(1, 255), 0, 6), func(b []byte) string { return string(b) }),
	)
	jsonText := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{
		"{", "}", "[", "]", ",", ":", `"a"`, `"\u00e9"`, `"\x41"`, `"\v"`, `'a'`, "1", "-", "+1", "01", ".5", "5.", "1e5", "1E+5", "0x1", "null", "true", "True", "NaN", "nul", " ", "\n", "\f", "\u00a0", "//", "\x00", `"`, "\t", "é",
	}), 0, 5), func(parts []string) string { return strings.Join(parts, "") })
	change := map[string]func(){
		"queue": func() { j.Queue = text.Draw(t, "text") },
		"kind":  func() { j.Kind = text.Draw(t, "text") + "k" },
		"group": func() { j.Group = text.Draw(t, "text") },
		"key":   func() { j.UniqueKey = text.Draw(t, "text") },
		"until": func() {
			j.UniqueUntil = dibs.UniqueUntil(rapid.SampledFrom([]string{"claimed", "CLAIMED", "x", "\x00"}).Draw(t, "until"))
		},
		"held": func() { j.IfHeld = dibs.IfHeld(rapid.SampledFrom([]string{"keep", "push", "merge"}).Draw(t, "held")) },
		"window": func() {
			j.UniqueWindow = rapid.SampledFrom([]string{"day", "day in UTC", "Day", "day in ", " day", "day in Nowhere"}).Draw(t, "window")
		},
		"for":      func() { j.UniqueFor = time.Duration(rapid.Int64().Draw(t, "for")/1000) * 1000 },
		"delay":    func() { j.Delay = time.Duration(rapid.Int64().Draw(t, "delay")/1000) * 1000 },
		"limit":    func() { j.DelayLimit = time.Duration(rapid.Int64().Draw(t, "limit")/1000) * 1000 },
		"run_at":   func() { j.RunAt = time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "run_at"), 0).UTC() },
		"priority": func() { j.Priority = new(rapid.IntRange(-2, 40_000).Draw(t, "priority")) },
		"attempts": func() { j.MaxAttempts = rapid.IntRange(-2, 1_100_000).Draw(t, "attempts") },
		"payload":  func() { j.Payload = json.RawMessage(jsonText.Draw(t, "json")) },
		"metadata": func() { j.Metadata = json.RawMessage(jsonText.Draw(t, "json")) },
	}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(change))), 1, 2).Draw(t, "changes") {
		change[name]()
	}
	return j
}
