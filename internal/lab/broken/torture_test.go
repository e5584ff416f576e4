package broken

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// TestTortureFindsBrokenVariants builds dibs with all variants, and runs dibs torture with each, on
// the variant's first database. It must find all variants without Untortured. The runs come one after
// the other, since the torture uses the whole machine.
func TestTortureFindsBrokenVariants(t *testing.T) {
	if os.Getenv("DIBS_SOAK") == "" {
		t.Skip("takes half an hour: only with DIBS_SOAK=1")
	}
	root := module(t)
	programs := t.TempDir()
	overlay, err := overlayOfAll(root, programs)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(programs, "dibs")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", binary, "./cmd/dibs")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, v := range Variants() {
		if v.Untortured != "" {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			var out string
			for _, duration := range []string{"30s", "1m", "2m"} { // it hunts at random, and a busy machine does little in half a minute
				var found bool
				began := time.Now()
				if out, found = tortured(t, root, binary, v, duration); found {
					t.Logf("found in %v", time.Since(began).Round(time.Second))
					return
				}
				t.Logf("not found in a run of %s", duration)
			}
			t.Errorf("not found:\n%s", out)
		})
	}
}

// TestTortureInTheConcurrentMode runs dibs torture on SQLite with what internal/rowstore does where others write meanwhile.
// It is built in by an overlay: only tests have that mode so far.
func TestTortureInTheConcurrentMode(t *testing.T) {
	needs.Night(t, "a minute of torture")
	root := module(t)
	dir := t.TempDir()
	texts := map[string]string{}
	for to, from := range map[string]string{"concurrent.go": "concurrent_export_test.go", "store.go": "store.go"} {
		text, err := os.ReadFile(filepath.Join(root, "sqlite", from))
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Join(root, "sqlite", to)] = string(text)
	}
	const opened = "\t\treturn nil, opening(path, err)\n\t}\n\treturn s, nil\n"
	store := filepath.Join(root, "sqlite", "store.go")
	if strings.Count(texts[store], opened) != 1 {
		t.Fatalf("%s has not one end of Open", store)
	}
	texts[store] = strings.Replace(texts[store], opened, strings.Replace(opened, "return s, nil", "return s, s.Concurrent(ctx, &Turns{})", 1), 1)
	list, err := overlay(dir, texts)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "dibs")
	for _, command := range [][]string{
		{"go", "build", "-overlay", list, "-o", binary, "./cmd/dibs"},
		{binary, "torture", "--db", "sqlite:" + filepath.Join(dir, "jobs.db"), "--duration", cmp.Or(os.Getenv("DIBS_TORTURE"), "1m")},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
		t.Logf("%s", out)
	}
}

// tortured has dibs torture look for a fault, and reports whether it has found that a promise is broken.
func tortured(t *testing.T, root, binary string, v Variant, duration string) (out string, found bool) {
	t.Helper()
	p := v.Patches[0]
	dir := t.TempDir()
	folder := filepath.Join(dir, "statements")
	db := "sqlite:" + filepath.Join(dir, "jobs.db")
	if p.Store == "postgres" {
		db = pgtest.URL(t)
	}
	if err := p.writeFolder(root, folder); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "torture", "--db", db, "--duration", duration, "--history", filepath.Join(dir, "history"))
	cmd.Env = append(os.Environ(), p.env(v.Name, folder)...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	return string(text), errors.As(err, &exit) && exit.ExitCode() == 8 && strings.Contains(string(text), "✗")
}
