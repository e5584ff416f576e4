package dibs_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTidyNoTestIsLeftOutOfBothRuns looks for tests that make test would run neither under the race
// detector nor without it.
func TestTidyNoTestIsLeftOutOfBothRuns(t *testing.T) {
	t.Parallel()
	raced := regexp.MustCompile(`(?m)^racing='(.*)'$`).FindStringSubmatch(read(t, "scripts/test.sh"))
	if raced == nil {
		t.Fatal("scripts/test.sh does not say which packages it runs under the race detector")
	}
	packages := strings.Fields(strings.ReplaceAll(raced[1], "./", ""))
	calls := regexp.MustCompile(`\bneeds\.Race(InPart)?\(`)
	marked := map[string]bool{} // folders with tests for the race detector
	for _, name := range files(t, "_test.go") {
		if !calls.MatchString(read(t, name)) {
			continue
		}
		folder := path.Dir(name)
		marked[folder] = true
		if !slices.Contains(packages, folder) {
			t.Errorf("%s leaves tests to the race detector, but scripts/test.sh does not run the package under it", name)
		}
	}
	for _, folder := range packages {
		if !marked[folder] {
			t.Errorf("no test of %s is for the race detector, but scripts/test.sh runs the package under it", folder)
		}
		if !slices.ContainsFunc(files(t, "_test.go"), func(name string) bool {
			return path.Dir(name) == folder && (strings.Contains(read(t, name), "needs.Split()") || strings.Contains(read(t, name), "clitest.Main("))
		}) {
			t.Errorf("the tests of %s run in both steps of scripts/test.sh: its TestMain does not call needs.Split", folder)
		}
	}
}
