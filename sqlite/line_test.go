package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// holdForever begins a transaction, says so, and keeps it until its input ends.
func holdForever(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	tx, err := s.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it has written nothing
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// enqueued enqueues a job on a goroutine, and returns the channel that gets its id.
func enqueued(t *testing.T, s *sqlite.Store) <-chan int64 {
	id := make(chan int64, 1)
	go func() {
		done, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}})
		if err != nil {
			t.Error(err)
			id <- 0
			return
		}
		id <- done[0].ID
	}()
	return id
}

func waitUntil(t *testing.T, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

// A process that was stopped at the head of the line, before it began to write, keeps nobody from writing. Nor do two
// other processes wait for it each time.
func TestTheFirstInLineMayNeverWrite(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	stopped, s := openAt(t, path, sqlite.Options{}), openAt(t, path, sqlite.Options{})
	goOn := stopped.StopInLine()
	began := time.Now()
	for range 20 {
		if <-enqueued(t, s) == 0 {
			return
		}
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("20 enqueues took %v: each has waited for the process that was stopped", took)
	}
	goOn()
	waitUntil(t, func() bool { return !s.InLine() })
	if <-enqueued(t, stopped) == 0 || <-enqueued(t, s) == 0 {
		t.Error("nobody writes after that")
	}
}

// Behind a process that was stopped at the head of the line, one that has waited for long tries the file's lock every
// 40 ms: another that is busy leaves gaps, and would be met in one only by chance if the tries were a second apart.
func TestBehindAStoppedProcessTheLockIsTriedOften(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	stopped, s := openAt(t, path, sqlite.Options{}), openAt(t, path, sqlite.Options{})
	defer stopped.StopInLine()()
	s.WaitInLine(time.Millisecond)
	began := time.Now()
	if err := s.Tries(t.Context(), 40, lockedBy(t, path)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 15*time.Second { // a second apart, it would take 20 s at least
		t.Errorf("40 tries took %v", took)
	}
}

// lockedBy is the error of SQLite for a file whose write lock another connection holds.
func lockedBy(t *testing.T, path string) error {
	t.Helper()
	raw := func() *sql.DB {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(0)&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	tx, err := raw().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has written nothing
	_, err = raw().BeginTx(t.Context(), nil)
	if err == nil {
		t.Fatal("two transactions write at a time")
	}
	return err
}

// However long a process would wait in line, it waits no longer than BusyTimeout: the line is no lock.
func TestTheLineDoesNotExceedBusyTimeout(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	stopped, s := openAt(t, path, sqlite.Options{}), openAt(t, path, sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	s.WaitInLine(time.Hour)
	defer stopped.StopInLine()()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Fatalf("behind a process that does not write: %v", err)
	}
	holder := openAt(t, path, sqlite.Options{})
	holder.WaitInLine(time.Millisecond)
	tx, err := holder.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has written nothing
	_, err = s.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}})
	if !errors.Is(err, dibs.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("beside a process that holds the write lock: %v", err)
	}
}

// Where the file for the line cannot be made, or is deleted, processes write all the same.
func TestProcessesWriteWithoutALine(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	if err := os.MkdirAll(filepath.Join(path+sqlite.LineSuffix, "not a file"), 0o700); err != nil {
		t.Fatal(err)
	}
	stores := make([]*sqlite.Store, 3)
	for i := range stores {
		stores[i] = openAt(t, path, sqlite.Options{})
	}
	var ids []<-chan int64
	for range 20 {
		for _, s := range stores {
			ids = append(ids, enqueued(t, s))
		}
	}
	for _, id := range ids {
		<-id
	}
	if stores[0].HasLine() {
		t.Error("a directory served as the file to lock")
	}
}

// What a call has waited for is in its error: another process that holds the write lock, by its number where the system tells.
func TestACallThatWaitedForAnotherProcessNamesIt(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	cmd, lines := start(t, self(t), "hold", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "held" {
		t.Fatalf("the process said %q", lines.Text())
	}
	says := "holds the file's write lock"
	if runtime.GOOS == "linux" {
		says = fmt.Sprintf("process %d (\"%s", cmd.Process.Pid, filepath.Base(self(t))[:5])
	}
	for name, call := range map[string]func(context.Context) error{
		"extend": func(ctx context.Context) error {
			_, err := s.Extend(ctx, []dibs.Lease{{ID: 1, Token: dibs.Token{1}}}, time.Minute)
			return err
		},
		"transaction": func(ctx context.Context) error { return s.InTx(ctx, func(dibs.Tx) error { return nil }) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := call(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, says)
		}
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
}
