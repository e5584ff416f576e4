// Package examples runs the example programs, so that they keep doing what they show.
package examples

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/jackc/pgx/v5"
)

func TestQuickstartGreets(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), needs.Build(t, "./quickstart"))
	cmd.Dir = t.TempDir()
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // and was killed
	}()
	var said []string
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		said = append(said, lines.Text())
		if strings.Contains(lines.Text(), "Hello, Ann") {
			return
		}
	}
	t.Errorf("it ended without a greeting:\n%s", strings.Join(said, "\n"))
}

func TestQuickstartIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 25 {
		t.Errorf("quickstart/main.go has %d lines, want at most 25", n)
	}
}

func TestTransactionChangesWorkAndDataTogether(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	cmd := exec.CommandContext(t.Context(), needs.Build(t, "./transaction"))
	cmd.Env = append(os.Environ(), "DIBS_DB="+database)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"no order, and no job: ", "order 1 is confirmed"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var orders, confirmed, jobs, completed int
	err = conn.QueryRow(t.Context(), `select
		(select count(*) from orders),
		(select count(*) from orders where confirmed),
		(select count(*) from dibs.job),
		(select count(*) from dibs.finished)`).Scan(&orders, &confirmed, &jobs, &completed)
	if err != nil {
		t.Fatal(err)
	}
	if orders != 1 || confirmed != 1 || jobs != 0 || completed != 1 {
		t.Errorf("%d orders, %d confirmed, %d live jobs, %d completed; want 1, 1, 0, 1", orders, confirmed, jobs, completed)
	}
}

func TestServiceStopsWellWhenItIsTold(t *testing.T) {
	t.Parallel()
	program := needs.Build(t, "./service")
	for name, db := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "service.db") },
		"postgres": func(t testing.TB) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			servesAndStops(t, exec.CommandContext(ctx, program, "--db", db(t), "--listen", "127.0.0.1:0"))
		})
	}
}

// servesAndStops starts the service, signs a user up, waits for the email, and ends it by SIGTERM.
func servesAndStops(t *testing.T, cmd *exec.Cmd) {
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		said = append(said, lines.Text())
		var line struct{ Msg, Address, To string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("it logs %q: %v", lines.Text(), err)
		}
		switch line.Msg {
		case "listening":
			answer, err := http.PostForm("http://"+line.Address+"/users", url.Values{"email": {"ann@example.com"}})
			if err != nil || answer.StatusCode != http.StatusAccepted {
				t.Errorf("signing up gave %v, %v", answer, err)
			}
			if err == nil {
				_ = answer.Body.Close() // it is empty
			}
		case "email":
			if line.To != "ann@example.com" {
				t.Errorf("it sends to %q", line.To)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(strings.Join(said, "\n"), `"msg":"email"`) {
		t.Errorf("it ended with %v and has logged\n%s", err, strings.Join(said, "\n"))
	}
}
