package dibs_test

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/storetest"
)

// TestTidyEachPromiseHasItsTests compares the table of docs/proof.md with the promises of
// docs/guarantees.md and with the tests that there are.
func TestTidyEachPromiseHasItsTests(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for name, file := range goFiles(t) {
		for _, d := range file.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(name, "_test.go") {
				tests[f.Name.Name] = true
			}
		}
	}
	for _, name := range storetest.Names() {
		chapter, _, _ := strings.Cut(name, "/")
		tests[name], tests[chapter] = true, true
	}
	_, table, _ := strings.Cut(read(t, "docs/proof.md"), "\n## Each promise")
	table, _, _ = strings.Cut(table, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	rows := map[string]bool{}
	for row := range strings.Lines(table) {
		columns := strings.Split(row, " | ")
		if len(columns) != 4 || strings.HasPrefix(row, "| promise") {
			continue
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(columns[0], "| "), ".")
		rows[number] = true
		for i, column := range columns[1:] {
			for _, m := range quoted.FindAllStringSubmatch(column, -1) {
				if name := m[1]; !tests[name] && (i == 0 || strings.HasPrefix(name, "Test")) {
					t.Errorf("docs/proof.md names %s, which is no test", name)
				}
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^(\d+)\. \*\*`).FindAllStringSubmatch(read(t, "docs/guarantees.md"), -1) {
		if !rows[m[1]] {
			t.Errorf("docs/proof.md does not say which tests try promise %s", m[1])
		}
	}
}
