package broken

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/dibs-queue/dibs" // Go runs the tests again if a file is added to its folder, which needs.Sources cannot read
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// hangTimeout is the time after which a test that should fail counts as hanging.
const hangTimeout = 5 * time.Minute

// TestEveryBrokenVariantIsCaught runs, with each variant, the test that must catch it; the same
// tests must pass on the unbroken code. It takes one database for each variant, PostgreSQL or SQLite,
// at night all that the variant has a patch for.
func TestEveryBrokenVariantIsCaught(t *testing.T) {
	needs.Long(t)
	needs.Sources(t, "../../../postgres", "../../../sqlite", "../../../mysql", "../../..")
	t.Setenv(pgtest.EnvServer, pgtest.URL(t)) // one server for all variants
	if needs.AtNight() {
		t.Setenv(mytest.EnvServer, mytest.ServerAddress(t))
	}
	root := module(t)
	programs := map[string]func() string{} // build the test program of each store, when it is first needed
	for _, store := range stores {
		programs[store] = sync.OnceValue(func() string { return build(t, root, store) })
	}
	t.Run("unbroken", func(t *testing.T) {
		for store, tests := range testsByStore() {
			t.Run(store, func(t *testing.T) {
				t.Parallel()
				out, err := run(t, root, "", Patch{Store: store}, programs[store](), tests...)
				for _, name := range tests {
					if err != nil || !strings.Contains(out, "--- PASS: "+goTestName(name)+" ") {
						t.Fatalf("%s must pass: %v\n%s", name, err, withoutProgress(out))
					}
				}
			})
		}
	})
	for _, v := range Variants() {
		for _, p := range tried(v) {
			t.Run(v.Name+"/"+p.Store, func(t *testing.T) {
				t.Parallel()
				program := programs[p.Store]()
				began := time.Now()
				out, err := run(t, root, v.Name, p, program, p.CaughtBy)
				for try := 2; try <= 3 && !failed(p.CaughtBy, out, err); try++ { // on a busy machine the goroutines of a race may miss each other
					t.Logf("not caught yet: run %d", try)
					out, err = run(t, root, v.Name, p, program, p.CaughtBy)
				}
				took := time.Since(began).Round(10 * time.Millisecond)
				if !failed(p.CaughtBy, out, err) {
					t.Fatalf("not caught by %s in %v: %v\n%s", p.CaughtBy, took, err, out)
				}
				t.Logf("caught by %s in %v: %s", p.CaughtBy, took, firstComplaint(out))
			})
		}
	}
}

// TestEveryPatchFitsTheSource finds, without any build, patches that no longer fit the source.
func TestEveryPatchFitsTheSource(t *testing.T) {
	for _, v := range Variants() {
		for _, p := range v.Patches {
			if _, err := p.apply(module(t)); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		}
	}
}

// tried returns the patches of a variant that are tried now: trying all of them takes minutes.
func tried(v Variant) []Patch {
	switch {
	case needs.AtNight():
		return v.Patches
	case v.Patches[0].Store == "mysql":
		return nil
	}
	return v.Patches[:1]
}

// testsByStore lists, for each store, the tests that must catch the variants that are tried.
func testsByStore() map[string][]string {
	tests := map[string][]string{}
	for _, v := range Variants() {
		for _, p := range tried(v) {
			tests[p.Store] = append(tests[p.Store], p.CaughtBy)
		}
	}
	return tests
}

func module(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// build builds the test program of a store, with the faults of all variants.
func build(t *testing.T, root, store string) string {
	t.Helper()
	dir := t.TempDir()
	overlay, err := overlayOfAll(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "store.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, "./"+store)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// run runs tests of the program like go test, with one fault or none.
func run(t *testing.T, root, fault string, p Patch, binary string, tests ...string) (out string, err error) {
	t.Helper()
	folder := t.TempDir()
	if err := p.writeFolder(root, folder); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*hangTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.timeout="+hangTimeout.String(), "-test.run="+pattern(tests))
	cmd.Dir = filepath.Join(root, p.Store)
	cmd.Env = append(os.Environ(), needs.EnvSplit+"=")
	cmd.Env = append(cmd.Env, p.env(fault, folder)...)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// pattern returns the -test.run pattern of exactly these tests and their subtests.
func pattern(tests []string) string {
	var all []string
	for _, name := range tests {
		var parts []string
		for _, part := range strings.Split(goTestName(name), "/") {
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		all = append(all, strings.Join(parts, "/"))
	}
	return strings.Join(all, "|")
}

// goTestName returns a test's name as go test prints it.
func goTestName(name string) string { return strings.ReplaceAll(name, " ", "_") }

// breakdown matches the output of a test that did not fail by its assertion: the program
// crashed or hung, or a statement of the variant is invalid.
var breakdown = regexp.MustCompile(`(?m)^(panic|fatal error): |SQLSTATE 42|SQL logic error|Error \d+ \(42`)

// failed reports whether the test failed by its assertion.
func failed(test, out string, err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && strings.Contains(out, "--- FAIL: "+goTestName(test)+" ") && !breakdown.MatchString(out)
}

var progress = regexp.MustCompile(`(?m)^ *(=== \w+|--- PASS:) .*\n`)

// withoutProgress leaves out of a test's output which tests began, went on and passed.
func withoutProgress(out string) string { return progress.ReplaceAllString(out, "") }

var assertion = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: .{0,200}`)

// firstComplaint returns the first message of a failing test.
func firstComplaint(out string) string {
	for _, line := range assertion.FindAllString(out, -1) {
		if !strings.Contains(line, "DIBS_TEST_SEED=") {
			return strings.TrimSpace(line)
		}
	}
	return "nothing"
}
