// Package needs lets a test say in which runs it has its place: beside the race detector or not,
// each time or only at night.
package needs

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// NoRaceDetector skips a test under the race detector, which multiplies the CPU that tests take: for
// tests that make one call after the other, or run other programs, so that it has nothing to find.
func NoRaceDetector(t testing.TB) {
	t.Helper()
	if RaceDetector {
		t.Skip("makes one call after the other: not under the race detector")
	}
}

// RaceDetectorOnlyFor makes a run under the race detector leave out all tests but those whose names
// begin with a given prefix. A run that names tests itself is not changed. TestMain calls it.
func RaceDetectorOnlyFor(prefixes ...string) {
	if flag.Parse(); RaceDetector && flag.Lookup("test.run").Value.String() == "" {
		_ = flag.Set("test.run", "^("+strings.Join(prefixes, "|")+")") // the flag exists and takes any text
	}
}

// Night skips a test in all runs but those of make night. The reason says why make test can do
// without the test.
func Night(t testing.TB, why string) {
	t.Helper()
	if !AtNight() {
		t.Skip("make night: " + why)
	}
}

// AtNight reports whether this is a run of make night. Long tests try more in it.
func AtNight() bool { return os.Getenv("DIBS_NIGHT") != "" }
