package broken

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/pgtest"
)

// TestTortureFindsBrokenVariants builds dibs with all variants, and runs dibs torture with each, on
// the variant's first database. It must find all variants without Untortured. The runs come one after
// the other, since the torture uses the whole machine.
func TestTortureFindsBrokenVariants(t *testing.T) {
	if os.Getenv("DIBS_SOAK") == "" {
		t.Skip("takes 20 minutes: only with DIBS_SOAK=1")
	}
	root := module(t)
	programs := t.TempDir()
	overlay, err := OverlayOfAll(root, programs)
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
		t.Run(v.Name, func(t *testing.T) {
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
			began := time.Now()
			cmd := exec.CommandContext(t.Context(), binary, "torture", "--db", db, "--duration", "30s", "--history", filepath.Join(dir, "history"))
			cmd.Env = append(os.Environ(), v.env(folder)...)
			out, err := cmd.CombinedOutput()
			took := time.Since(began).Round(time.Second)
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && exit.ExitCode() == 8 && strings.Contains(string(out), "✗"):
				t.Logf("found in %v", took)
			case v.Untortured != "":
				t.Logf("not found in %v, as %s", took, v.Untortured)
			default:
				t.Errorf("not found in %v: %v\n%s", took, err, out)
			}
		})
	}
}
