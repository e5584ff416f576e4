package broken

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/pgtest"
)

// stuck is when a test that was to fail is taken to hang instead.
const stuck = time.Minute

// TestEveryBrokenVariantIsCaught builds each variant and runs the test that must
// catch it; the same tests must pass on the unbroken code.
func TestEveryBrokenVariantIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and tests the stores once for each variant")
	}
	t.Setenv(pgtest.EnvServer, pgtest.URL(t)) // one server for all
	root := module(t)
	programs := map[string]string{} // of each store, for patches of statements
	for _, p := range fromFolder {
		programs[p.Store] = build(t, root, p)
	}
	t.Run("unbroken", func(t *testing.T) {
		for store, tests := range caught() {
			t.Run(store, func(t *testing.T) {
				t.Parallel()
				out, err := run(t, root, Patch{Store: store}, programs[store], tests...)
				for _, name := range tests {
					if err != nil || !strings.Contains(out, "--- PASS: "+flat(name)+" ") {
						t.Fatalf("%s must pass: %v\n%s", name, err, out)
					}
				}
			})
		}
	})
	for _, v := range Variants() {
		for _, p := range v.In {
			t.Run(v.Name+"/"+p.Store, func(t *testing.T) {
				t.Parallel()
				program := programs[p.Store]
				if !p.statementsOnly() {
					program = build(t, root, p)
				}
				began := time.Now()
				out, err := run(t, root, p, program, p.Caught)
				took := time.Since(began).Round(10 * time.Millisecond)
				if !failed(p.Caught, out, err) {
					t.Fatalf("not caught by %s in %v: %v\n%s", p.Caught, took, err, out)
				}
				t.Logf("caught by %s in %v: %s", p.Caught, took, said(out))
			})
		}
	}
}

// TestEveryPatchFitsTheSource is what fails first, and at once, when the source changes.
func TestEveryPatchFitsTheSource(t *testing.T) {
	for _, v := range Variants() {
		for _, p := range v.In {
			if _, err := p.patched(module(t)); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		}
	}
}

// caught lists the tests that must catch something, by store.
func caught() map[string][]string {
	tests := map[string][]string{}
	for _, v := range Variants() {
		for _, p := range v.In {
			tests[p.Store] = append(tests[p.Store], p.Caught)
		}
	}
	return tests
}

func module(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// build makes the test program of a store, patched.
func build(t *testing.T, root string, p Patch) string {
	t.Helper()
	dir := t.TempDir()
	overlay, err := p.Overlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, p.Store+".test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, "./"+p.Store)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// run runs tests of the program as go test would, beside the patched statements.
func run(t *testing.T, root string, p Patch, binary string, tests ...string) (out string, err error) {
	t.Helper()
	folder := t.TempDir()
	if err := p.folder(root, folder); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*stuck)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.timeout="+stuck.String(), "-test.run="+pattern(tests))
	cmd.Dir = filepath.Join(root, p.Store)
	cmd.Env = append(os.Environ(), folderEnv+"="+folder)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// pattern selects exactly these tests, with what is below them.
func pattern(tests []string) string {
	var all []string
	for _, name := range tests {
		var parts []string
		for _, part := range strings.Split(flat(name), "/") {
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		all = append(all, strings.Join(parts, "/"))
	}
	return strings.Join(all, "|")
}

// flat is a test's name as go test writes it.
func flat(name string) string { return strings.ReplaceAll(name, " ", "_") }

// breakdown is what a failing test prints when it did not fail by what it asserts: the
// program broke down or hung, or a statement of the variant is not even valid.
var breakdown = regexp.MustCompile(`(?m)^(panic|fatal error): |SQLSTATE 42|SQL logic error`)

// failed reports whether the test failed by what it asserts.
func failed(test, out string, err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && strings.Contains(out, "--- FAIL: "+flat(test)+" ") && !breakdown.MatchString(out)
}

var assertion = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: .{0,200}`)

// said is the first thing that a failing test complained of.
func said(out string) string {
	for _, line := range assertion.FindAllString(out, -1) {
		if !strings.Contains(line, "DIBS_TEST_SEED=") {
			return strings.TrimSpace(line)
		}
	}
	return "nothing"
}

// TestTheTableNamesEveryVariant keeps docs/broken.md true, but for its times.
func TestTheTableNamesEveryVariant(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(module(t), "docs", "broken.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, v := range Variants() {
		if !strings.Contains(text, "\n"+row(v)) {
			t.Errorf("docs/broken.md lacks the row\n%s", row(v))
		}
	}
	if rows := strings.Count(text, "\n| `"); rows != len(Variants()) {
		t.Errorf("docs/broken.md has %d rows, there are %d variants", rows, len(Variants()))
	}
	for _, page := range []string{"broken.md", "proof.md"} {
		b, err := os.ReadFile(filepath.Join(module(t), "docs", page))
		if want := fmt.Sprintf(" %d faults", len(Variants())); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("docs/%s does not say%s, %v", page, want, err)
		}
	}
}

// row is a variant's row of the table without the time.
func row(v Variant) string {
	var tests []string
	for _, p := range v.In {
		test := strings.TrimPrefix(p.Caught, "TestStore/")
		switch {
		case len(v.In) == 1 || p.Caught == v.In[0].Caught && p.Caught == v.In[1].Caught:
		case p.Store == "sqlite":
			test += " (SQLite)"
		default:
			test += " (PostgreSQL)"
		}
		if len(tests) == 0 || tests[0] != test {
			tests = append(tests, test)
		}
	}
	torture := "yes"
	if v.Untortured != "" {
		torture = "no: " + v.Untortured
	}
	return "| `" + v.Name + "` | " + v.Fault + " | " + v.Harm + " | " + strings.Join(tests, "; ") + " | " + torture + " | "
}
