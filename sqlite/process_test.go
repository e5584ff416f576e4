package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// The tests below start this test binary again as another process: TestMain then
// plays the part that DIBS_TEST_PART names, on the file DIBS_TEST_FILE.
func TestMain(m *testing.M) {
	lab.Obey(load)
	part, ok := parts[os.Getenv("DIBS_TEST_PART")]
	if !ok {
		needs.Split()
		os.Exit(m.Run())
	}
	if err := part(context.Background(), os.Getenv("DIBS_TEST_FILE")); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

var parts = map[string]func(ctx context.Context, path string) error{
	"enqueue": enqueueForever,
	"work":    workUntilEmpty,
	"open":    openAndEnqueue,
	"hold":    holdForever,
}

// start starts another process; the scanner reads its output.
func start(t *testing.T, program, part, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "DIBS_TEST_PART="+part, "DIBS_TEST_FILE="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(io.Reader(out))
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// enqueueForever prints each id once its job is durable.
func enqueueForever(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	for {
		done, err := s.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}})
		if err != nil {
			return err
		}
		fmt.Println(done[0].ID)
	}
}

// workUntilEmpty enqueues 1,000 jobs, some of them grouped, and then works until
// nothing is left; it prints what it completed.
func workUntilEmpty(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	for i := range 500 {
		jobs := []dibs.NewJob{{Kind: "k"}, {Kind: "k", Group: strconv.Itoa(i % 7)}}
		if _, err := s.Enqueue(ctx, jobs); err != nil {
			return err
		}
	}
	for {
		jobs, err := s.Claim(ctx, dibs.ClaimRequest{Worker: strconv.Itoa(os.Getpid()), N: 20, Lease: time.Hour})
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			stats, err := s.Stats(ctx)
			if err != nil {
				return err
			}
			if stats[0].Waiting+stats[0].Blocked+stats[0].Running == 0 {
				return s.Close()
			}
			continue
		}
		for _, j := range jobs {
			if err := s.Finish(ctx, []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
				return err
			}
			fmt.Println(j.ID)
		}
	}
}

// openAndEnqueue prints each step that it has done.
func openAndEnqueue(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err == nil {
		_, err = s.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}})
	}
	return err
}

func TestProcessesShareAFileWithoutALockedErrorAndLoseNothing(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	const processes = 4
	completed := make(chan string, 2*processes*1_000)
	ended := make(chan error, processes)
	for range processes {
		cmd, lines := start(t, self(t), "work", path) // the processes also make the file together
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			for lines.Scan() {
				completed <- lines.Text()
			}
			ended <- cmd.Wait()
		}()
	}
	for range processes {
		if err := <-ended; err != nil {
			t.Errorf("a process ended with %v", err)
		}
	}
	close(completed)
	times := make(map[string]int)
	for line := range completed {
		if strings.HasPrefix(line, "error:") {
			t.Error(line)
		}
		times[line]++
	}
	for line, n := range times {
		if n != 1 {
			t.Errorf("job %s was completed %d times", line, n)
		}
	}
	if want := processes * 1_000; len(times) != want {
		t.Errorf("%d jobs were completed, %d were enqueued", len(times), want)
	}
	openAt(t, path, sqlite.Options{}) // its cleanup checks the file
}

func TestAKilledProcessLosesNothingThatItWasTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	cmd, lines := start(t, self(t), "enqueue", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for lines.Scan() {
		id, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			t.Fatal(lines.Text())
		}
		if ids = append(ids, id); len(ids) == 200 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the process was not killed")
	}
	s := openAt(t, path, sqlite.Options{})
	for _, id := range ids {
		if _, err := s.Get(t.Context(), id); err != nil {
			t.Fatalf("job %d of %d acknowledged ones: %v", id, len(ids), err)
		}
	}
}

func TestAnotherStoresEnqueueWakesListeners(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	here, there := openAt(t, path, sqlite.Options{}), openAt(t, path, sqlite.Options{})
	wake, stop := here.Wakeups("q")
	defer stop()
	other, stopOther := here.Wakeups("other")
	defer stopOther()
	for range 3 {
		if _, err := there.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wake:
		case <-time.After(10 * time.Second):
			t.Fatal("nobody was woken")
		}
		jobs, err := here.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 10})
		if err != nil || len(jobs) == 0 {
			t.Fatal(jobs, err)
		}
	}
	select {
	case <-other:
		t.Error("a queue without work was woken")
	default:
	}
}
