package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// asNobody runs the command as a user without rights. The tests may run as root, whom no
// mode of a file stops.
func (c *cli) asNobody(args ...string) runResult {
	c.T.Helper()
	cmd := c.Command(args...)
	cmd.Path = "/proc/self/exe" // the user may have no access to the program's folder
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return c.Finished(cmd)
}

func TestReadOnlyFile(t *testing.T) {
	c := onSQLite(t)
	c.OK("enqueue", "q")
	path := strings.TrimPrefix(c.DB, "sqlite:")
	for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		chmod(t, dir, 0o555)
	}
	chmod(t, path, 0o444)
	args := []string{"enqueue", "q"}
	c.Refused(c.asNobody(args...), cmdline.ExitUnavailable, args, path, "right to write")
	chmod(t, filepath.Dir(path), 0o755)
	chmod(t, path, 0o644)
	c.Has(c.Stats("q"), object{"waiting": 1})
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Chmod(path, info.Mode().Perm()); err != nil {
			t.Error(err)
		}
	})
}

// The test fills a disk of 1 MB, which a namespace of the kernel provides without any
// rights. A job that did not fit must be absent, and the others intact.
func TestFullDisk(t *testing.T) {
	c := onSQLite(t)
	dir := t.TempDir()
	if out, err := exec.Command("unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=1m", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("this system lets nobody make a small disk: %v %s", err, out)
	}
	c.DB = "sqlite:" + filepath.Join(dir, "small.db")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := `mount -t tmpfs -o size=1m none "$2" || exit 99
		"$1" --db "$3" enqueue q --lines < /dev/null || exit 98
		yes 0123456789012345678901234567890123456789 | head -n 100000 | "$1" --db "$3" enqueue q --lines
		code=$?
		"$1" --db "$3" enqueue q 1 || exit 97
		"$1" --db "$3" check || exit 96
		exit $code`
	cmd := exec.Command("unshare", "-Urm", "sh", "-c", script, "sh", self, dir, c.DB)
	cmd.Env = append(os.Environ(), clitest.AsCommand+"=1")
	r := c.Finished(cmd)
	c.Refused(r, cmdline.ExitUnavailable, []string{"enqueue"}, "the disk with "+dir, "is full; nothing was written", "free some space")
	if want := "enqueued 0 jobs\nenqueued job 1 in q\nnothing wrong\n"; r.Out != want {
		t.Errorf("stdout is %q, want %q", r.Out, want)
	}
}
