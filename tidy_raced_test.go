package dibs_test

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/needs"
)

// TestTidyNoTestIsLeftOutOfBothRuns looks for tests that make test would run neither under the race
// detector nor without it.
func TestTidyNoTestIsLeftOutOfBothRuns(t *testing.T) {
	needs.NoRaceDetector(t)
	t.Parallel()
	raced := regexp.MustCompile(`(?m)^racing='(.*)'$`).FindStringSubmatch(read(t, "scripts/test.sh"))
	if raced == nil {
		t.Fatal("scripts/test.sh does not say which packages it runs under the race detector")
	}
	packages := strings.Fields(strings.ReplaceAll(raced[1], "./", ""))
	prefixes, plain := map[string][]string{}, map[string][]string{} // prefixes and names of tests, by package
	for name, file := range goFiles(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		folder := path.Dir(name)
		for _, d := range file.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			called := needsOf(f)
			_, only := called["RaceDetectorOnly"]
			which, those := called["RaceDetectorOnlyFor"]
			_, never := called["NoRaceDetector"]
			if (only || those) && !slices.Contains(packages, folder) {
				t.Errorf("%s: %s leaves tests to the race detector, but scripts/test.sh does not run the package under it", name, f.Name.Name)
			}
			if only && never {
				t.Errorf("%s: %s leaves itself to the race detector, and does without it", name, f.Name.Name)
			}
			prefixes[folder] = append(prefixes[folder], which...)
			if never {
				plain[folder] = append(plain[folder], f.Name.Name)
			}
		}
	}
	for folder, those := range prefixes {
		for _, test := range plain[folder] {
			if slices.ContainsFunc(those, func(prefix string) bool { return strings.HasPrefix(test, prefix) }) {
				t.Errorf("%s: %s does without the race detector, but its name leaves it to that", folder, test)
			}
		}
	}
}

// needsOf lists the functions of the package needs that a function calls, with the texts that it gives them.
func needsOf(f *ast.FuncDecl) map[string][]string {
	called := map[string][]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok {
			if of, ok := s.X.(*ast.Ident); ok && of.Name == "needs" {
				called[s.Sel.Name] = []string{}
				for _, arg := range call.Args {
					if text, ok := arg.(*ast.BasicLit); ok {
						value, _ := strconv.Unquote(text.Value) // the compiler has read it
						called[s.Sel.Name] = append(called[s.Sel.Name], value)
					}
				}
			}
		}
		return true
	})
	return called
}
