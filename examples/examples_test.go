// Package examples runs the example programs, so that they keep doing what they show.
package examples

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/pgtest"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/jackc/pgx/v5"
)

// build builds the program in a folder of this one.
func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("go build ./%s: %v\n%s", name, err, out)
	}
	return program
}

func TestQuickstartGreets(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), build(t, "quickstart"))
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
	url := pgtest.URL(t)
	cmd := exec.CommandContext(t.Context(), build(t, "transaction"))
	cmd.Env = append(os.Environ(), "DIBS_DB="+url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"no order, and no job: ", "order 1 is confirmed"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
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
	url := pgtest.URL(t)
	if err := postgres.Migrate(t.Context(), url, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ids, err := store.Enqueue(t.Context(), []dibs.NewJob{{Queue: "emails", Kind: "welcome", Payload: "ann"}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), build(t, "service"))
	cmd.Env = append(os.Environ(), "DIBS_DB="+url)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		job, err := store.Get(t.Context(), ids[0].ID)
		if err != nil || time.Now().After(end) {
			t.Fatalf("the job is still %v, %v", job, err)
		}
		if job.State == dibs.Completed {
			break
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), `{"time":`) {
		t.Errorf("it ended with %v and has logged\n%s", err, said.String())
	}
}
