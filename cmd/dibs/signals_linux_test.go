package main

import (
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

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
	w := c.processBy(byNohup, "q", "--", "true")
	w.says("worker started")
	w.signal(syscall.SIGHUP)
	w.signal(syscall.SIGHUP)
	c.ok("enqueue", "q")
	c.await("q", "completed", 1)
	w.signal(syscall.SIGTERM)
	w.says(`worker stopping" reason="terminated signal received"`)
	if code := w.ended(); code != exitOK {
		t.Errorf("dibs work ends with exit code %d", code)
	}
}

func TestAHangUpEndsAWorkerThatDoesNotIgnoreItAndTheLogSaysSo(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	w := c.process("q", "--", "true")
	w.says("worker started")
	w.signal(syscall.SIGHUP)
	w.says(`worker stopping" reason="hangup signal received"`)
	if code := w.ended(); code != exitOK {
		t.Errorf("dibs work ends with exit code %d", code)
	}
}

func TestAServerStartedByNohupGoesOnAfterAHangUp(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	s := c.serveProcessBy(byNohup, nil, "--listen", "127.0.0.1:0")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code, text := status(t, s.url+"/readyz"); code != http.StatusOK {
		t.Errorf("after a hang-up: %d %s", code, text)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := s.end(); code != exitOK || !strings.Contains(s.log.String(), `"server stopping","reason":"terminated signal received"`) {
		t.Errorf("dibs serve ends with exit code %d: %s", code, s.log.String())
	}
}
