// Package sums runs sums.sh on a small tree, on every database.
package sums

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/dibs-queue/dibs" // Go runs the tests again if a file is added to its folder, which needs.Sources cannot read
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

const files = 200

// tree makes a folder of files with awkward names, some empty, some alike.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for i := range files {
		name := [...]string{"plain-%d.txt", "with space %d", "-dash%d", "größe-%d", "$(touch oops)%d", "'quoted' & <%d>"}[i%6]
		path := filepath.Join(root, fmt.Sprintf("folder %d", i%7), fmt.Sprintf(name, i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat("x", i%50*100)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func run(t *testing.T, dibs, db string) (string, error) {
	t.Helper()
	needs.Files(t, "sums.sh")
	cmd := exec.CommandContext(t.Context(), "bash", "./sums.sh", tree(t))
	cmd.Env = append(os.Environ(), "DIBS="+dibs, "DIBS_DB="+db)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestEveryFileIsHashedOnceThoughWorkersAreKilled(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	dibs := needs.Build(t, "../../cmd/dibs")
	for name, db := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "sums.db") },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, dibs, db(t))
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{fmt.Sprintf("%d results", files), "OK: every path once"} {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			if n := strings.Count(out, "  killed  worker"); n != 2 {
				t.Errorf("%d workers were killed, want 2:\n%s", n, out)
			}
		})
	}
}

// The script's own verdict can fail: a command that forgets one result, or tells one
// wrong, is found out.
func TestTheScriptFindsWrongResults(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	dibs := needs.Build(t, "../../cmd/dibs")
	for name, spoil := range map[string]string{
		"a lost result":  `s/"result":"[^"]*plain-0\.txt"/"gone":""/`,
		"a wrong result": `s/"result":"[0-9a-f]*  \([^"]*plain-0\.txt\)"/"result":"0000000000000000000000000000000000000000000000000000000000000000  \1"/`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liar := filepath.Join(t.TempDir(), "liar")
			script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = ls ]; then %q \"$@\" | sed -e '%s'; else exec %q \"$@\"; fi\n", dibs, spoil, dibs)
			if err := os.WriteFile(liar, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			out, err := run(t, liar, "sqlite:"+filepath.Join(t.TempDir(), "sums.db"))
			if err == nil || !strings.Contains(out, "FAILED: results differ from sha256sum's") || !strings.Contains(out, "plain-0.txt") {
				t.Errorf("it did not find it: %v\n%s", err, out)
			}
		})
	}
}
