package rest

import (
	"testing"
	"time"
)

// A claim for some kinds that has read for long and found nothing is followed by a pause: ten times as long where a wake-up
// asks for another one, fifty times where none does.
func TestFruitlessClaimsAreSpacedOut(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const took = 40 * time.Millisecond
	kinds := []string{"b", "a"}
	for what, c := range map[string]struct {
		took   time.Duration
		found  bool
		rungAt time.Time
		asked  []string
		left   time.Duration
		woken  bool
	}{
		"no wake-up":                 {took: took, left: 50 * took},
		"a wake-up before it":        {took: took, rungAt: began.Add(-1), left: 50 * took},
		"a wake-up meanwhile":        {took: took, rungAt: began, left: 10 * took, woken: true},
		"a process that was stopped": {took: time.Hour, left: longestUnasked},
		"the same, and a wake-up":    {took: time.Hour, rungAt: began, left: longestAfterWake, woken: true},
		"kinds in another order":     {took: took, asked: []string{"a", "b"}, left: 50 * took},
		"other kinds":                {took: took, asked: []string{"a"}},
		"all kinds":                  {took: took, asked: []string{}},
		"jobs were found":            {took: took, found: true},
		"it read for a short time":   {took: worth - 1},
	} {
		var claims Claims
		claims.Note("q", kinds, began, c.took, c.found)
		asked := kinds
		if c.asked != nil {
			asked = c.asked
		}
		if left, woken := claims.Left("q", asked, began.Add(c.took), c.rungAt); left != c.left || woken != c.woken {
			t.Errorf("%s: wait %v, woken %v; want %v, %v", what, left, woken, c.left, c.woken)
		}
		if left, _ := claims.Left("q", asked, began.Add(c.took+c.left), c.rungAt); left != 0 {
			t.Errorf("%s: wait %v after the pause", what, left)
		}
		if left, _ := claims.Left("other", asked, began.Add(c.took), c.rungAt); left != 0 {
			t.Errorf("%s: in another queue, wait %v", what, left)
		}
	}
}
