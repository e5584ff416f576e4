package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/crash"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

const loadClients = 3 // clients in each process

// loadPart is the order of a process that loads a file.
type loadPart struct {
	Path, Client, Worker string
	Seed                 uint64
	Relaxed              bool
	Early                bool
}

// load runs clients until it is killed, and records their calls beside the file.
func load(ctx context.Context, p loadPart) error {
	s, err := sqlite.Open(ctx, p.Path, sqlite.Options{Relaxed: p.Relaxed})
	if err != nil {
		return err
	}
	var db admin.Database = s
	if p.Early {
		db = &crash.Early{Database: s}
	}
	rec, err := history.OpenIn(filepath.Dir(p.Path), p.Client)
	if err != nil {
		return err
	}
	ended := make(chan error)
	for i := range loadClients {
		c := crash.Client{Name: fmt.Sprintf("%s-%d", p.Worker, i), DB: history.Wrap(db, rec), Rand: rand.New(rand.NewPCG(p.Seed, uint64(i)))}
		go func() { ended <- c.Loop(ctx) }()
	}
	return <-ended
}

// TestAKilledProcessLosesNothing kills processes that use a file at random moments,
// from their start on. Package crash lists what must be there afterwards, and the limits
// of this proof.
func TestAKilledProcessLosesNothing(t *testing.T) {
	needs.Long(t)
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
			for i := range c.rounds {
				killUnderLoad(t, path, r, i, c.processes, killedWithin, loadPart{Relaxed: c.relaxed})
				intact(t, path)
			}
			for _, line := range judge(t, path, "judge") {
				t.Error(line)
			}
		})
	}
}

// TestAStoreThatAnswersTooEarlyIsFoundOut shows that the test above can fail.
func TestAStoreThatAnswersTooEarlyIsFoundOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	r := crash.Random(t)
	for i := range 100 { // a process may be killed before it has finished anything
		killUnderLoad(t, path, r, i, 1, time.Duration(1+i/5)*killedWithin, loadPart{Early: true})
		if len(judge(t, path, fmt.Sprint("judge-", i))) > 0 {
			return
		}
	}
	t.Error("nothing was missing")
}

// killedWithin is how long a process lives at most. On a slow machine it may need longer to begin.
const killedWithin = 400 * time.Millisecond

// killUnderLoad starts processes and kills one after the other, each after at most this time.
func killUnderLoad(t *testing.T, path string, r *rand.Rand, run, processes int, within time.Duration, p loadPart) {
	t.Helper()
	rec, err := history.OpenIn(filepath.Dir(path), fmt.Sprint("kills-", run))
	if err != nil {
		t.Fatal(err)
	}
	crew := lab.Crew{Dir: filepath.Dir(path), Rec: rec}
	defer crew.KillAll()
	p.Path = path
	for i := range processes {
		p.Worker, p.Client, p.Seed = fmt.Sprintf("p%d", i), fmt.Sprintf("p%d-%d", i, run), r.Uint64()
		order := p
		crew.Add(p.Client, func(string, int) (*exec.Cmd, error) { return lab.Self(order) })
		if err := crew.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range crew.Seats {
		time.Sleep(time.Duration(r.Int64N(int64(within))))
		if _, err := s.Kill(); err != nil {
			t.Error(err)
		}
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}

// intact opens the file, as a process does that comes after the crash.
func intact(t *testing.T, path string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var said string
	if err := s.DB().QueryRowContext(t.Context(), "pragma integrity_check").Scan(&said); err != nil || said != "ok" {
		t.Fatalf("integrity check: %s, %v", said, err)
	}
}

func judge(t *testing.T, path, name string) []string {
	t.Helper()
	found, err := crash.Judge(t.Context(), openAt(t, path, sqlite.Options{}), filepath.Dir(path), name)
	if err != nil {
		t.Fatal(err)
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
