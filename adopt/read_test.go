package adopt_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// What is wrong in a file is said by its field and line, in words of the mapping.
func TestBadFiles(t *testing.T) {
	for _, bad := range []struct{ text, field, why string }{
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
		{"tabel: x", "tabel", "line 1: there is no such field; there are table, queue, id"},
		{"claim: {tokn: x}", "claim.tokn", "there is no such field; there are token"},
		{"lease: 5m\nlease: 6m", "lease", "line 2: "},
		{"a: b: c", "mapping", "line 1"},
		{"- a", "mapping", "line 1: must be fields"},
		{"", "mapping", "is empty"},
	} {
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

// In Go, too, what cannot be meant is filled in.
func TestBackoffWithoutAnEndIsTaken(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		m.Backoff = dibs.Backoff{Base: 2 * time.Hour}
		opened(t, db, m)
		m.Backoff = dibs.Backoff{Base: 2 * time.Hour, Max: time.Hour}
		refuses(t, db, m, "backoff", "base <= max")
	})
}
