package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/crash"
	"github.com/dibs-queue/dibs/sqlite"
)

const loadClients = 3 // clients in each process

// loadEnv holds the name, run, seed and options of a process that loads the file.
const loadEnv = "DIBS_TEST_LOAD"

type loadPart struct {
	Name, Run string
	Seed      uint64
	Relaxed   bool
	Early     bool
}

// load runs clients until it is killed, and prints their notes.
func load(ctx context.Context, path string) error {
	var p loadPart
	if err := json.Unmarshal([]byte(os.Getenv(loadEnv)), &p); err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, path, sqlite.Options{Relaxed: p.Relaxed})
	if err != nil {
		return err
	}
	var db dibs.Database = s
	if p.Early {
		db = &answersEarly{Database: s}
	}
	var mu sync.Mutex
	ended := make(chan error)
	for i := range loadClients {
		c := crash.Client{
			Name: fmt.Sprintf("%s-%d", p.Name, i), Run: p.Run, DB: db, Rand: rand.New(rand.NewPCG(p.Seed, uint64(i))),
			Note: func(n crash.Note) {
				mu.Lock()
				defer mu.Unlock()
				crash.Write(os.Stdout, n)
			},
		}
		go func() { ended <- c.Loop(ctx) }()
	}
	return <-ended
}

// answersEarly is a store that answers before the commit: it writes outcomes when the next
// ones come.
type answersEarly struct {
	dibs.Database
	mu   sync.Mutex
	next []dibs.Outcome
}

func (e *answersEarly) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	due := e.next
	e.next = outcomes
	if len(due) > 0 {
		if err := e.Database.Finish(ctx, due); err != nil {
			return err
		}
	}
	if string(outcomes[len(outcomes)-1].Result) == `"stale"` { // must be refused at once
		e.next = nil
		return e.Database.Finish(ctx, outcomes)
	}
	return nil
}

// TestAKilledProcessLosesNothing kills processes that use a file at random moments,
// from their start on. Package crash lists what must be there afterwards, and the limits
// of this proof.
func TestAKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		processes int
		relaxed   bool
		rounds    int
	}{
		{"alone", 1, false, crash.Times(5, 80)},
		{"relaxed", 1, true, crash.Times(4, 60)},
		{"beside others", 3, false, crash.Times(2, 20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "jobs.db")
			r := crash.Random(t)
			var ledger crash.Ledger
			notes := 0
			for i := range c.rounds {
				notes += killUnderLoad(t, path, &ledger, r, i, c.processes, loadPart{Relaxed: c.relaxed})
				for _, line := range judge(t, path, &ledger) {
					t.Errorf("round %d: %s", i, line)
				}
			}
			left, err := crash.Drain(t.Context(), openAt(t, path, sqlite.Options{}))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d kills, %d notes; %d jobs were left and then completed", c.rounds*c.processes, notes, left)
		})
	}
}

// TestAStoreThatAnswersTooEarlyIsFoundOut shows that the test above can fail.
func TestAStoreThatAnswersTooEarlyIsFoundOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	r := crash.Random(t)
	var ledger crash.Ledger
	for i := range 100 { // a process may be killed before it has finished anything
		killUnderLoad(t, path, &ledger, r, i, 1, loadPart{Early: true})
		if len(judge(t, path, &ledger)) > 0 {
			return
		}
	}
	t.Error("nothing was missing")
}

// killUnderLoad starts processes, kills them one after the other, and returns how many
// notes they have given.
func killUnderLoad(t *testing.T, path string, ledger *crash.Ledger, r *rand.Rand, run, processes int, p loadPart) int {
	t.Helper()
	type ending struct {
		notes int
		odd   string
		err   error
	}
	ended := make(chan ending)
	var running []*exec.Cmd
	for i := range processes {
		p.Name, p.Run, p.Seed = fmt.Sprintf("p%d", i), fmt.Sprint(run), r.Uint64()
		settings, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self(t))
		cmd.Env = append(os.Environ(), "DIBS_TEST_PART=load", "DIBS_TEST_FILE="+path, loadEnv+"="+string(settings))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
		go func() {
			notes, odd, err := ledger.Read(out)
			_ = cmd.Wait() // it was killed
			ended <- ending{notes, odd, err}
		}()
	}
	for _, cmd := range running {
		time.Sleep(time.Duration(r.IntN(400_000)) * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("a process ended before it was killed: %v", err)
		}
	}
	notes := 0
	for range running {
		e := <-ended
		if notes += e.notes; e.odd != "" || e.err != nil {
			t.Errorf("a process said %q, %v", e.odd, e.err)
		}
	}
	return notes
}

// judge opens the file as a process does after the crash.
func judge(t *testing.T, path string, ledger *crash.Ledger) []string {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var intact string
	if err := s.DB().QueryRowContext(t.Context(), "pragma integrity_check").Scan(&intact); err != nil {
		t.Fatal(err)
	}
	found, err := ledger.Judge(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.EqualFold(intact, "ok") {
		found = append(found, "integrity check: "+intact)
	}
	return found
}

// TestCommitsWaitForTheDisk checks that the connections have synchronous=FULL: kills of a
// process cannot show whether a commit has reached the disk.
func TestCommitsWaitForTheDisk(t *testing.T) {
	t.Parallel()
	for relaxed, want := range map[bool]int{false: 2, true: 1} {
		s := openStore(t, sqlite.Options{Relaxed: relaxed})
		var got int
		if err := s.DB().QueryRowContext(t.Context(), "pragma synchronous").Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("relaxed %v: synchronous is %d, want %d", relaxed, got, want)
		}
		if got, err := s.WriterPragma(t.Context(), "synchronous"); err != nil || got != want {
			t.Errorf("relaxed %v: the writer's synchronous is %d, want %d (%v)", relaxed, got, want, err)
		}
	}
}
