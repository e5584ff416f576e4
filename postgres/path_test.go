package postgres

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/dibs-queue/dibs/internal/pgtest"
)

var qualified = regexp.MustCompile(`operator\(pg_catalog\.([^)]+)\)|pg_catalog\.`)

// Whatever somebody plants in a schema of the path, even in one before the server's own,
// a statement means what it means without it.
func TestStatementsMeanTheSameUnderEverySearchPath(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	sql, err := load("dibs")
	if err != nil {
		t.Fatal(err)
	}
	delete(sql.text, "enqueue_copy") // names no function, operator or type, and is not parsed
	p := pgtest.Plant(t, url)
	for _, name := range slices.Sorted(maps.Keys(sql.text)) {
		p.For(sql.text[name])
	}
	for _, name := range slices.Sorted(maps.Keys(sql.text)) {
		text := sql.text[name]
		meant, err := p.Parsed(text, "pg_catalog")
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := p.Parsed(qualified.ReplaceAllString(text, "$1"), "pg_catalog"); plain != meant {
			t.Errorf("%s needs parentheses where operators meet (%v):\n%s", name, err, text)
		}
		if planted, err := p.Parsed(text, "planted, pg_catalog"); planted != meant {
			t.Errorf("%s means something else where others may plant (%v):\n%s", name, err, text)
		}
	}
}
