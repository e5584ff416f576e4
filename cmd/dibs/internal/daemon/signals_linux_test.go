package daemon

import (
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/needs"
)

// byNohup has a process start as nohup starts it: with SIGHUP ignored.
func byNohup(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = shell
}

func TestAWorkerStartedByNohupGoesOnAfterHangUps(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	w := c.ProcessBy(byNohup, "q", "--", "true")
	w.Says("worker started")
	w.Signal(syscall.SIGHUP)
	w.Signal(syscall.SIGHUP)
	c.OK("enqueue", "q")
	c.Await("q", "completed", 1)
	w.Signal(syscall.SIGTERM)
	w.Says(`worker stopping" reason="terminated signal received"`)
	if code := w.Ended(); code != cmdline.ExitOK {
		t.Errorf("dibs work ends with exit code %d", code)
	}
}

func TestAHangUpEndsAWorkerThatDoesNotIgnoreItAndTheLogSaysSo(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	heard := make(chan os.Signal, 1) // while this process handles the signal, its children do not inherit that nohup ignores it
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	w := c.Process("q", "--", "true")
	w.Says("worker started")
	w.Signal(syscall.SIGHUP)
	w.Says(`worker stopping" reason="hangup signal received"`)
	if code := w.Ended(); code != cmdline.ExitOK {
		t.Errorf("dibs work ends with exit code %d", code)
	}
}

func TestAServerStartedByNohupGoesOnAfterAHangUp(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	s := c.ServeProcessBy(byNohup, nil, "--listen", "127.0.0.1:0")
	if err := s.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code, text := status(t, s.URL+"/readyz"); code != http.StatusOK {
		t.Errorf("after a hang-up: %d %s", code, text)
	}
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := s.End(); code != cmdline.ExitOK || !strings.Contains(s.Log.String(), `"server stopping","reason":"terminated signal received"`) {
		t.Errorf("dibs serve ends with exit code %d: %s", code, s.Log.String())
	}
}
