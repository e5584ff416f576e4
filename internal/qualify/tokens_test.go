package qualify

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// pattern says what tokensOf finds.
var pattern = regexp.MustCompile(`(?s)\s+|--[^\n]*|\x01(?:[^\x02]|\x02\x02)*\x02|\x00[a-z]+\x00` +
	`|[eE]'(?:\\.|''|[^'\\])*'|'(?:''|[^'])*'|"(?:""|[^"])*"` +
	`|\$?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|[a-zA-Z_][a-zA-Z0-9_]*|::|=>|[-+*/<>=~!@#%^&|?]+|.`)

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

func sameTokens(t failer, text string) {
	t.Helper()
	if got, want := tokensOf(text), pattern.FindAllString(text, -1); !slices.Equal(got, want) {
		t.Fatalf("tokens of %q:\n%q, want\n%q", text, got, want)
	}
}

func TestTokensAreThoseOfThePattern(t *testing.T) {
	paths, err := filepath.Glob("../../postgres/*/*.sql")
	if err != nil || len(paths) < 50 {
		t.Fatalf("%d files of SQL, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sameTokens(t, string(text))
	}
	part := rapid.SampledFrom([]string{
		"'", "''", `"`, `\`, "e'", "E'", "\x00", "\x01", "\x02", "-", "--", "\n", " ", "\t", "a", "Z_9", "e", "1", "2.5", ".", "$", "$3", "e-4", "e+", "::", "=>", "=", "<>",
		":", "(", ")", ";", "ä", "\xff", "\u2028", "\v", "'\\", "\\'",
	})
	rapid.Check(t, func(t *rapid.T) {
		var text string
		for _, p := range rapid.SliceOfN(part, 0, 30).Draw(t, "parts") {
			text += p
		}
		sameTokens(t, text)
	})
}

func BenchmarkText(b *testing.B) {
	text, err := os.ReadFile("../../postgres/sql/claim.sql")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Text(string(text))
	}
}
