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

// TestRequirementsNameTestsThatExist checks the names of tests in docs/requirements.md.
func TestRequirementsNameTestsThatExist(t *testing.T) {
	doc, err := os.ReadFile("../docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	functions, suite, named := testFunctions(t, ".."), storetest.Names(), 0
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(doc), -1) {
		name := m[1]
		switch {
		case strings.HasPrefix(name, "Test"):
			named++
			if !functions[name] {
				t.Errorf("there is no %s", name)
			}
		case strings.Contains(name, "/") && !strings.HasPrefix(name, "go test "):
			named++
			if !slices.Contains(suite, name) {
				t.Errorf("the suite has no test %q", name)
			}
		}
	}
	if named < 80 {
		t.Errorf("the table names %d tests only", named)
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
