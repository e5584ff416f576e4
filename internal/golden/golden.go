// Package golden compares what tests get with files of testdata.
package golden

import (
	"os"
	"testing"
)

// Match expects a file of testdata to hold what the test got; with UPDATE_GOLDEN=1 it
// writes the file anew.
func Match(t *testing.T, file, got string) {
	t.Helper()
	path := "testdata/" + file
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if that is meant, run the test with UPDATE_GOLDEN=1. Now it is:\n%s", path, got)
	}
}
