package interleave

import (
	"strings"
	"testing"
)

// Damage is a change of a statement that only some orders of a scenario show. It has
// no type of its own, so that tables need not name the fields.
type Damage = struct {
	What, Scenario           string
	Statement, Text, Instead string
	Finding                  string // part of what is said of it
}

// FindDamage shows that the enumeration can fail. Each damage must be found, on a bench
// that gives the statements of its stores to rewrite.
func FindDamage(t *testing.T, o Options, open func(tb testing.TB, rewrite func(name, text string) string) Bench, all []Damage) {
	for _, d := range all {
		t.Run(d.What, func(t *testing.T) {
			t.Parallel()
			done := false
			bench := open(t, func(name, text string) string {
				if name != d.Statement {
					return text
				}
				done = done || strings.Contains(text, d.Text)
				return strings.ReplaceAll(text, d.Text, d.Instead)
			})
			if !done {
				t.Fatalf("%s.sql has no %q any more", d.Statement, d.Text)
			}
			c, err := Named(d.Scenario).Run(t.Context(), o, bench)
			if err == nil || !strings.Contains(err.Error(), d.Finding) {
				t.Fatalf("not found in %v: %v", c, err)
			}
			t.Logf("found after %v\n%v", c, err)
		})
	}
}
