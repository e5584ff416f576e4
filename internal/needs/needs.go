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

// RaceDetectorOnlyFor limits a run under the race detector to the tests whose names begin with one
// of the prefixes, unless the run names tests itself. A package's TestMain calls it.
func RaceDetectorOnlyFor(prefixes ...string) {
	if flag.Parse(); RaceDetector && flag.Lookup("test.run").Value.String() == "" {
		_ = flag.Set("test.run", "^("+strings.Join(prefixes, "|")+")") // the flag exists and takes any text
	}
}

// Night skips a test but in make night, which takes hours. What is tried more often says why
// that is enough for make test.
func Night(t testing.TB, why string) {
	t.Helper()
	if !AtNight() {
		t.Skip("make night: " + why)
	}
}

// AtNight reports whether this is a run of make night, in which tests that are long in any case
// try more.
func AtNight() bool { return os.Getenv("DIBS_NIGHT") != "" }
