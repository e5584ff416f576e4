package dibs_test

import (
	"path"
	"strings"
	"testing"
)

// Code that all databases share gives a statement its parameters and reads its columns, so both are the same in each
// folder. A database's statement may return more columns, after the word "Then".
func TestTidySharedStatementsHaveTheSameParametersAndColumns(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, name := range files(t, ".go") {
		if path.Dir(name) == "internal/reads" {
			code.WriteString(read(t, name))
		}
	}
	shared := 0
	for _, name := range statements(t, "postgres") {
		if !strings.Contains(code.String(), `"`+name+`"`) {
			continue
		}
		shared++
		pg, lite := interfaceOf(t, "postgres/sql/"+name+".sql"), interfaceOf(t, "sqlite/sql/"+name+".sql")
		if pg != lite {
			t.Errorf("%s.sql has other parameters or columns in postgres than in sqlite:\n%s\n%s", name, pg, lite)
		}
	}
	if shared < 15 {
		t.Errorf("internal/reads has %d statements; this test has not found them", shared)
	}
}

// interfaceOf is what the header of a statement says of its parameters and columns, without what differs by dialect.
func interfaceOf(t *testing.T, name string) string {
	t.Helper()
	text := read(t, name)
	_, text, _ = strings.Cut(text, headerParts[1])
	text, _, _ = strings.Cut(text, headerParts[3])
	text = strings.NewReplacer("--", "", "?", "$", headerParts[2], "\nColumns out: ").Replace(text)
	text, _, _ = strings.Cut(strings.Join(strings.Fields(text), " "), " Then ")
	return text
}
