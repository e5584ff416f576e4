package dibs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pinned matches an action that is named by its commit, with the version beside it.
var pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v[\d.]+$`)

// A tag of an action may be moved to other code; a commit may not.
func TestTidyActionsOfWorkflowsAreNamedByCommit(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no workflows: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, action, uses := strings.Cut(strings.TrimSpace(line), "uses: ")
			if uses && !strings.HasPrefix(action, "./") && !pinned.MatchString(action) {
				t.Errorf("%s uses %s", file, action)
			}
		}
	}
}
