package dibs_test

import (
	"slices"
	"strings"
	"testing"
)

// labUsers lists what may import internal/lab beside itself and tests: the commands demo, torture and bench, which run
// it, what tests of the command share, the suite for databases, whose races package history judges, and the benchmark of other queues.
var labUsers = []string{"cmd/dibs/demo", "cmd/dibs/torture", "cmd/dibs/bench", "cmd/dibs/internal/clitest/", "cmd/dibs/internal/screens/", "storetest/", "bench/"}

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
