package storetest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/storetest"
)

// TestRequirementsNameTestsThatExist looks for each test that is said to show a requirement.
func TestRequirementsNameTestsThatExist(t *testing.T) {
	functions, suite, named := testFunctions(t, ".."), storetest.Names(), 0
	measured := regexp.MustCompile(`^make bench W\d+$`)
	for system, list := range requirements {
		for _, r := range list {
			if len(r.shownBy) == 0 {
				t.Errorf("%s: nothing shows that it can %s", system, r.must)
			}
			for _, name := range r.shownBy {
				named++
				if !functions[name] && !slices.Contains(suite, name) && !measured.MatchString(name) {
					t.Errorf("%s: there is no test %q", system, name)
				}
			}
		}
	}
	if named < 80 {
		t.Errorf("the requirements name %d tests only", named)
	}
}

func TestNamesAreUnique(t *testing.T) {
	names := storetest.Names()
	slices.Sort(names)
	if once := slices.Compact(slices.Clone(names)); len(once) != len(names) {
		t.Fatalf("%d of %d tests share their name with another", len(names)-len(once), len(names))
	}
}

// testFunctions lists the test functions of all packages under a folder.
func testFunctions(t *testing.T, root string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
