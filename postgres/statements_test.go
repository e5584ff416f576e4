package postgres

import (
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/sqlfiles"
)

func TestStatementsAreInTheirSchema(t *testing.T) {
	t.Parallel()
	s, err := load("other")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sqlfiles.Names(files) {
		usual := func(text string) string {
			return sqlfiles.Parts(text, func(mark string) bool { return !forRates(mark) })
		}
		if got, want := s.get(name), inSchema(inDibs(name, usual), "other"); got != want || strings.Contains(got, "dibs.") {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}
