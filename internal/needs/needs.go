// Package needs lets a test say in which runs it has its place: beside the race detector or not,
// each time or only at night.
package needs

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// EnvSplit is the environment variable that make test sets for its two runs of packages, of which one is
// under the race detector, which multiplies the CPU that tests take. With it, each test is in one of them.
const EnvSplit = "DIBS_TEST_SPLIT"

func split() bool { return os.Getenv(EnvSplit) != "" }

// Race leaves a test, in which goroutines meet, to make test's run under the race detector. Where nothing
// is split, it does nothing.
func Race(t testing.TB) {
	t.Helper()
	if split() && !raceDetector {
		t.Skip("make test runs it under the race detector, in its other step")
	}
}

// RaceInPart says of a test that each part of it says by RacePart whether goroutines meet in it.
func RaceInPart(t testing.TB) {
	t.Helper()
	inPart.Store(t.Name(), true)
}

// RaceAtNight is RaceInPart for a test of which only make night tries the parts in which goroutines meet. The reason says
// why make test can do without them.
func RaceAtNight(t testing.TB, why string) {
	t.Helper()
	RaceInPart(t)
	if split() && raceDetector {
		Night(t, why)
	}
}

// inPart holds the names of tests that called RaceInPart.
var inPart sync.Map

// RacePart leaves a part of a test to one of make test's two runs if RaceInPart was called for the test.
func RacePart(t testing.TB, meet bool) {
	t.Helper()
	top, _, _ := strings.Cut(t.Name(), "/")
	if _, ok := inPart.Load(top); ok && split() && meet != raceDetector {
		t.Skip("make test has this part in its other step")
	}
}

// NoRaceDetector skips a test under the race detector: one that measures memory.
func NoRaceDetector(t testing.TB) {
	t.Helper()
	if raceDetector {
		t.Skip("measures memory: not under the race detector")
	}
}

// Split leaves to make test's run under the race detector only the tests of the package that call Race,
// RaceInPart or RaceAtNight. It looks for them in the source. TestMain calls it.
func Split() {
	flag.Parse()
	if !split() || !raceDetector || flag.Lookup("test.run").Value.String() != "" {
		return
	}
	names, err := races(".")
	if err == nil {
		err = flag.Set("test.run", "^("+strings.Join(names, "|")+")$")
	}
	if err != nil {
		panic(err)
	}
}

// races lists the tests of the package in a folder that call one of these.
func races(folder string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && callsRace(f) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names, err
}

func callsRace(f *ast.FuncDecl) (calls bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Race", "RaceInPart", "RaceAtNight"}, s.Sel.Name) {
			of, ok := s.X.(*ast.Ident)
			calls = calls || ok && of.Name == "needs"
		}
		return !calls
	})
	return calls
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
