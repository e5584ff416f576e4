package interleave

import (
	"strings"
	"testing"
)

// Damage is a fault put into a statement, which only some orders of a scenario reveal.
// It is an alias, so that tables need not name the fields.
type Damage = struct {
	What, Scenario           string
	Statement, Text, Instead string
	Finding                  string // text that the failure must contain
}

// FindDamage shows that the enumeration can fail: its run must find each damage. The
// stores of the bench pass each of their statements through rewrite.
func FindDamage(t *testing.T, o Options, open func(tb testing.TB, rewrite func(name, text string) string) Bench, all []Damage) {
	for _, d := range all {
		t.Run(d.What, func(t *testing.T) {
			t.Parallel()
			rewritten := false
			bench := open(t, func(name, text string) string {
				if name != d.Statement {
					return text
				}
				rewritten = rewritten || strings.Contains(text, d.Text)
				return strings.ReplaceAll(text, d.Text, d.Instead)
			})
			if !rewritten {
				t.Fatalf("%s.sql no longer contains %q", d.Statement, d.Text)
			}
			c, err := named(d.Scenario).Run(t.Context(), o, bench)
			if err == nil || !strings.Contains(err.Error(), d.Finding) {
				t.Fatalf("not found in %v: %v", c, err)
			}
			t.Logf("found after %v\n%v", c, err)
		})
	}
}
