// Package needs lets a test say in which runs it has its place: beside the race detector or not,
// each time or only at night.
package needs

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
)

// NoRaceDetector skips a test under the race detector, which multiplies the CPU that tests take: for
// tests that make one call after the other, or run other programs, so that it has nothing to find.
func NoRaceDetector(t testing.TB) {
	t.Helper()
	if RaceDetector {
		t.Skip("makes one call after the other: not under the race detector")
	}
	notRaced.Store(t.Name(), true)
}

// notRaced holds the names of tests that called NoRaceDetector: so do all their subtests.
var notRaced sync.Map

// RacedBeside is the environment variable that make test sets for its run without the race detector of
// packages whose tests it also runs under it.
const RacedBeside = "DIBS_RACED_BESIDE"

// RaceDetectorOnly skips a test in make test's run without the race detector: one in which goroutines
// meet, and which the run under it tries, too. All other runs have it.
func RaceDetectorOnly(t testing.TB) {
	t.Helper()
	if os.Getenv(RacedBeside) == "" || RaceDetector || AtNight() {
		return
	}
	for name, more := t.Name(), true; more; {
		if _, plain := notRaced.Load(name); plain {
			return
		}
		end := strings.LastIndexByte(name, '/')
		if more = end > 0; more {
			name = name[:end]
		}
	}
	t.Skip("runs under the race detector")
}

// RaceDetectorOnlyFor makes a run under the race detector leave out all tests but those whose names
// begin with a given prefix, and RaceDetectorOnly of them. A run that names tests itself is not changed.
// TestMain calls it.
func RaceDetectorOnlyFor(prefixes ...string) {
	if flag.Parse(); flag.Lookup("test.run").Value.String() != "" {
		return
	}
	those := "^(" + strings.Join(prefixes, "|") + ")"
	switch { // the flags exist and take any text
	case RaceDetector:
		_ = flag.Set("test.run", those)
	case os.Getenv(RacedBeside) != "" && !AtNight():
		_ = flag.Set("test.skip", those)
	}
}

// Long skips a test with -short, as in make check, as it takes seconds.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: not with -short")
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
