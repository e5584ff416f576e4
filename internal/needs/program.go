package needs

import (
	"os"
	"os/exec"
	"testing"
)

// Program skips a test where a program that it starts is not here, as Missing does.
func Program(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Missing(t, "needs %s: %v (scripts/languages.sh installs what the tests need, on Debian)", name, err)
		}
	}
}

// Missing skips a test that lacks something of the machine, and says what. In CI, where nothing may be left out,
// the test fails; with -short, which asks for Go alone, it is skipped there too.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" && !testing.Short() {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
