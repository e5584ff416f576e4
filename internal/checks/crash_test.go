package checks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

// period is that of all jobs.
const period = 150 * time.Millisecond

func TestMain(m *testing.M) {
	lab.Obey(enqueueAndWork)
	os.Exit(m.Run())
}

// enqueueAndWork is what a process of this test does: it enqueues jobs with periods, and works them.
func enqueueAndWork(ctx context.Context, url string) error {
	db, err := open.Database(context.WithoutCancel(ctx), open.URL(url), open.Options{}) // opened even if stdin ends meanwhile
	if err != nil {
		return err
	}
	defer db.Close()
	for ctx.Err() == nil {
		if err := enqueueAndWorkOnce(ctx, db); err != nil && !errors.Is(err, dibs.ErrUnavailable) && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// enqueueAndWorkOnce enqueues jobs with few keys, alone or in a transaction, which may be rolled
// back, and completes some.
func enqueueAndWorkOnce(ctx context.Context, db dibs.Database) error {
	jobs := make([]dibs.NewJob, 1+rand.IntN(3))
	for i := range jobs {
		key := fmt.Sprint(rand.IntN(6))
		jobs[i] = dibs.NewJob{
			Queue: "q", Kind: key, UniqueKey: key, UniqueFor: period,
			UniqueUntil: []dibs.UniqueUntil{dibs.UntilFinished, dibs.UntilClaimed}[rand.IntN(2)],
			IfHeld:      []dibs.IfHeld{dibs.HeldKeep, dibs.HeldReplace}[rand.IntN(2)],
		}
	}
	errRollBack := errors.New("roll back")
	var err error
	if way := rand.IntN(3); way == 0 {
		_, err = db.Enqueue(ctx, jobs)
	} else {
		err = db.InTx(ctx, func(tx dibs.Tx) error {
			if _, err := tx.Enqueue(ctx, jobs); err != nil || way == 1 {
				return err
			}
			return errRollBack
		})
	}
	if err != nil && !errors.Is(err, errRollBack) {
		return err
	}
	claimed, err := db.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 3, Lease: time.Second})
	if err != nil {
		return err
	}
	outcomes := make([]dibs.Outcome, len(claimed))
	for i, j := range claimed {
		outcomes[i] = j.Lease().Complete(nil)
	}
	if err := db.Finish(ctx, outcomes); err != nil && !errors.Is(err, dibs.ErrLeaseLost) {
		return err
	}
	_, err = db.Sweep(ctx)
	return err
}

// TestAPeriodHasOneJobThroughKills lets several processes enqueue jobs with the same keys, and
// kills them one after the other. In the order of creation, no job of a key may come in the period
// of the job before.
func TestAPeriodHasOneJobThroughKills(t *testing.T) {
	needs.Long(t)
	processes, lasts := 4, 6*time.Second
	if os.Getenv("DIBS_SOAK") != "" {
		processes, lasts = 8, 10*time.Minute
	}
	for name, url := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "dibs.db") },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onePerPeriod(t, open.URL(url(t)), processes, lasts)
		})
	}
}

func onePerPeriod(t *testing.T, url open.URL, processes int, lasts time.Duration) {
	ctx := t.Context()
	if err := open.Migrate(ctx, url, open.Options{}); err != nil {
		t.Fatal(err)
	}
	db, err := open.Database(ctx, url, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	crew := lab.Crew{Dir: t.TempDir()}
	defer crew.KillAll()
	for i := range processes {
		crew.Add(fmt.Sprint("process-", i), func(string, int) (*exec.Cmd, error) { return lab.Self(url.Reveal()) })
	}
	if err := crew.Start(); err != nil {
		t.Fatal(err)
	}
	kills, err := crew.KillInTurn(300*time.Millisecond, lasts)
	if err != nil {
		t.Fatal(err)
	}
	// On a slow machine each process is killed before it does much: the last ones go on until there are enough jobs to
	// judge.
	for end := time.Now().Add(5 * time.Minute); len(jobsOf(t, db)) < 20 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	if err := crew.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	jobs := jobsOf(t, db)
	for _, line := range history.Broken([]history.Verdict{history.Periods(jobs, period)}) {
		t.Error(line)
	}
	if t.Logf("%d jobs, %d kills", len(jobs), kills); len(jobs) < 20 {
		t.Errorf("only %d jobs were enqueued", len(jobs))
	}
	if found, err := db.Check(ctx); err != nil || len(found) > 0 {
		t.Errorf("consistency check: %q, %v", found, err)
	}
}

// jobsOf are all jobs of the queue q.
func jobsOf(t *testing.T, db dibs.Database) []*dibs.RawJob {
	t.Helper()
	jobs, err := history.Jobs(t.Context(), db, dibs.Filter{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}
