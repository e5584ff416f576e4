package dibs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// labUsers lists what may import internal/lab beside itself and tests: the commands demo, torture and bench, which run
// it, what tests of the command share, the suite for databases, whose races package history judges, and the benchmark of other queues.
var labUsers = []string{"cmd/dibs/demo", "cmd/dibs/torture", "cmd/dibs/bench", "cmd/dibs/internal/clitest/", "cmd/dibs/internal/linear/", "cmd/dibs/internal/screens/", "cmd/dibs/internal/torture/", "storetest/", "bench/"}

// TestTidyOnlyTheCommandsThatRunTheLabImportIt keeps what only proves out of what ships.
func TestTidyOnlyTheCommandsThatRunTheLabImportIt(t *testing.T) {
	t.Parallel()
	for name, file := range goFiles(t) {
		user := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if strings.HasSuffix(name, "_test.go") || user("internal/lab/") || slices.ContainsFunc(labUsers, user) {
			continue
		}
		for _, spec := range file.syntax.Imports {
			if strings.Contains(spec.Path.Value, "/dibs/internal/lab") {
				t.Errorf("%s must not import %s, which is not for what ships", name, spec.Path.Value)
			}
		}
	}
}

// TestTidyTheLibraryRequiresFewModules counts the modules that go.mod requires directly. A program that imports dibs gets
// them in its own go.mod, so what only the command needs is required by the command's.
func TestTidyTheLibraryRequiresFewModules(t *testing.T) {
	t.Parallel()
	const most = 11
	direct := regexp.MustCompile(`(?m)^\t\S+ v\S+$`).FindAllString(read(t, "go.mod"), -1)
	if n := len(direct); n == 0 || n > most {
		t.Errorf("go.mod requires %d modules directly, at most %d are allowed:%s", n, most, strings.Join(direct, ""))
	}
}
