package jobs

import (
	"os"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// A copy of the input has no name, so that it disappears with the process however that ends.
func TestTheCopyOfTheInputHasNoName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	src, err := spool(strings.NewReader("x\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if line, err := cmdline.ReadLine(src.first().Reader); err != nil || string(line) != "x" {
		t.Errorf("got %q, %v", line, err)
	}
	in, err := src.again()
	if err != nil {
		t.Fatal(err)
	}
	if line, err := cmdline.ReadLine(in.Reader); err != nil || string(line) != "x" {
		t.Errorf("got %q, %v", line, err)
	}
}
