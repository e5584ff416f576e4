package adopt_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

var badFiles = []struct{ text, field, why string }{
	{"lease: soon", "lease", `line 1: must be a duration such as 10s or 1h, got "soon"`},
	{"table: x\nlease: 10", "lease", `line 2: must be a duration such as 10s or 1h, got "10"`},
	{"max_attempts: many", "max_attempts", `line 1: must be a whole number, got "many"`},
	{"side_table: maybe", "side_table", `must be true or false, got "maybe"`},
	{"completed: yes", "completed", `must be fields with their values: set, delete, got "yes"`},
	{"dead:\n  delete: 3", "dead.delete", `line 2: must be true or false, got "3"`},
	{"id: {a: b}", "id", "must be the name of a column, or a list of names"},
	{"claim: [a]", "claim", "must be fields with their values: token, locked_by"},
	{"claim:\n  set: x", "claim.set", `line 2: must be columns with their values, such as {status: done}, got "x"`},
	{"backoff: {factor: x}", "backoff.factor", `must be a number, got "x"`},
	{"tabel: x", "tabel", "line 1: there is no such field; the fields are table, queue, id"},
	{"claim: {tokn: x}", "claim.tokn", "there is no such field; the fields are token"},
	{"lease: 5m\nlease: 6m", "lease", "line 2: "},
	{"a: b: c", "mapping", "line 1"},
	{"- a", "mapping", "line 1: must be fields"},
	{"", "mapping", "is empty"},
	{"table: x\n---\ntable: y", "mapping", "must be one YAML document"},
	{"table: x\n...\n[", "mapping", "must be one YAML document"},
}

// An error in a file names the mapping's field and the line.
func TestBadFiles(t *testing.T) {
	for _, bad := range badFiles {
		_, err := mapping.Parse([]byte(bad.text))
		var invalid *dibs.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != bad.field || !strings.Contains(invalid.Reason, bad.why) {
			t.Errorf("%q: %v", bad.text, err)
		}
	}
}

func TestBackoffIsFilledIn(t *testing.T) {
	for text, want := range map[string]dibs.Backoff{
		"table: x":                         {},
		"backoff: {base: 5s}":              {Base: 5 * time.Second, Factor: 2, Max: time.Hour, Jitter: 0.25},
		"backoff: {max: 10s, jitter: 0}":   {Base: time.Second, Factor: 2, Max: 10 * time.Second},
		"backoff: {base: 0s, factor: 1.5}": {Factor: 1.5, Max: time.Hour, Jitter: 0.25},
	} {
		if m, err := mapping.Parse([]byte(text)); err != nil || m.Backoff != want {
			t.Errorf("%s: %+v, %v", text, m.Backoff, err)
		}
	}
}

// A mapping in Go gets the same defaults as one in a file.
func TestBackoffWithoutAnEndIsTaken(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		m.Backoff = dibs.Backoff{Base: 2 * time.Hour}
		opened(t, db, m)
		m.Backoff = dibs.Backoff{Base: 2 * time.Hour, Max: time.Hour}
		refuses(t, db, m, "backoff", "base <= max")
	})
}

// A mapping that is read, written and read again stays the same. The error about one that is
// refused names a field of the file, and the line.
func FuzzMapping(f *testing.F) {
	f.Add("table: shop.orders\nid: [a, b]\norder: created desc\nunfinished: done is null\ncompleted: {set: {done: $now, n: 1, ok: true, none: null}}\ndead: {delete: true}")
	f.Add("table: x\nid: id\nclaim: {token: t, set: {a: 1.5, b: '$$x', c: 2026-01-31}}\nlease: 5m\nbackoff: {base: 5s, factor: 1.5}\ngroup: {column: c, limit: 2}")
	f.Add("table: x\npayload: {columns: [a], json: true}\nside_table: yes\ntimes: unix_ms\nconcurrency: 1\nput_back: {set: {status: 'new'}}\nrunning: |\n  a\n  b\n")
	f.Add("table: &a x\nqueue: *a\nwhere: \"a \\u202e b\"")
	for _, bad := range badFiles {
		f.Add(bad.text)
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := mapping.Parse([]byte(text))
		if err != nil {
			var invalid *dibs.InvalidError
			if !errors.As(err, &invalid) || invalid.Field == "" || invalid.Reason == "" {
				t.Fatalf("%q is refused by %#v", text, err)
			}
			for field := range strings.SplitSeq(invalid.Field, ".") {
				escaped := strings.ContainsAny(text, `\&*"!`)     // YAML has other ways to write a name with these
				folded := strings.Join(strings.Fields(text), " ") // YAML folds the lines of a name
				if field != "mapping" && !strings.Contains(text, field) && !strings.Contains(folded, field) && !escaped {
					t.Errorf("%q is refused for %q, which it does not have: %v", text, invalid.Field, err)
				}
			}
			if strings.Contains(err.Error(), "adopt.") || strings.Contains(err.Error(), "unmarshal") {
				t.Errorf("%q is refused in words of Go: %v", text, err)
			}
			return
		}
		written, err := yaml.Marshal(m)
		if err != nil {
			t.Fatalf("%q is read as %+v, which cannot be written: %v", text, m, err)
		}
		again, err := mapping.Parse(written)
		if err != nil {
			t.Fatalf("%q is read, and written as\n%s: %v", text, written, err)
		}
		if second, err := yaml.Marshal(again); err != nil || string(second) != string(written) {
			t.Errorf("%q is read and written as\n%s, and that as\n%s, %v", text, written, second, err)
		}
	})
}
