package postgres

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestStatementsAreInTheirSchema(t *testing.T) {
	t.Parallel()
	s, err := load("other")
	if err != nil {
		t.Fatal(err)
	}
	files, err := sqlFiles.ReadDir("sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), filepath.Ext(f.Name()))
		usual := func(text string) string { return parts(text, func(mark string) bool { return !forRates(mark) }) }
		if got, want := s.get(name), inSchema(inDibs(name, usual), "other"); got != want || strings.Contains(got, "dibs.") {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestMarkedPartsOfAStatement(t *testing.T) {
	t.Parallel()
	none, all := func(string) bool { return false }, func(string) bool { return true }
	const text = "a\n  -- for x {\n  b\n  -- }\nc -- for y\n-- for two, three {\nd\n-- }\n  -- for x, as above\ne"
	if got, want := parts(text, none), "a\nc -- for y\ne"; got != want {
		t.Errorf("without its marked parts it is %q, want %q", got, want)
	}
	const again = "a\n  -- for x {\n  b\n  -- }\nc -- for y\n-- for two, three {\nd\n-- }\n  -- for x {\n  b\n  -- }\ne"
	if got := parts(text, all); got != again {
		t.Errorf("with them it is %q, want %q", got, again)
	}
}
