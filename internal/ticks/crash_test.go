package ticks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

func TestMain(m *testing.M) {
	lab.Obey(work)
	os.Exit(m.Run())
}

// work is what a process of this test does: it looks after the schedules of a database.
func work(ctx context.Context, url string) error {
	db, err := open.Database(context.WithoutCancel(ctx), open.URL(url), open.Options{}) // stdin may end meanwhile
	if err != nil {
		return err
	}
	defer db.Close()
	w := dibs.Worker{Store: db, Queue: "nothing", Hooks: dibs.Hooks{Error: func(string, error) {}}}
	w.HandleRaw("", func(context.Context, *dibs.RawJob) error { return nil })
	return w.Run(ctx)
}

// TestEachTickHasOneJobThroughKills runs schedules over several processes, of which one after
// the other is killed, and then expects one job for each tick.
func TestEachTickHasOneJobThroughKills(t *testing.T) {
	needs.Long(t)
	schedules, processes, lasts := 50, 3, 12*time.Second
	if os.Getenv("DIBS_SOAK") != "" {
		schedules, processes, lasts = 1000, 8, 10*time.Minute
	}
	for name, url := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "dibs.db") },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachTickOnce(t, url(t), schedules, processes, lasts)
		})
	}
}

func eachTickOnce(t *testing.T, url string, schedules, processes int, lasts time.Duration) {
	ctx := t.Context()
	if err := open.Migrate(ctx, open.URL(url), open.Options{}); err != nil {
		t.Fatal(err)
	}
	db, err := open.Database(ctx, open.URL(url), open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	crew := lab.Crew{Dir: t.TempDir()}
	defer crew.KillAll()
	for i := range processes {
		crew.Add(fmt.Sprint("process-", i), func(string, int) (*exec.Cmd, error) { return lab.Self(url) })
	}
	if err := crew.Start(); err != nil {
		t.Fatal(err)
	}
	list := make([]dibs.Schedule, schedules)
	for i := range list {
		// All ticks count, however long the processes are away on a slow machine.
		list[i] = dibs.Schedule{Name: fmt.Sprintf("s%04d", i), Spec: "every 1s", Kind: "k", Queue: "q", Missed: dibs.MissedAll, MissedLimit: dibs.MaxMissed}
	}
	if err := db.SetSchedules(ctx, "test", list); err != nil {
		t.Fatal(err)
	}
	kills, err := crew.KillInTurn(time.Second, lasts)
	if err := errors.Join(err, crew.Stop(time.Minute)); err != nil {
		t.Fatal(err)
	}
	jobs, err := history.Jobs(ctx, db, dibs.Filter{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	after, err := db.Schedules(ctx)
	if err != nil {
		t.Fatal(err)
	}
	verdict := history.Ticks(after, jobs, time.Second)
	for _, line := range history.Broken([]history.Verdict{verdict}) {
		t.Error(line)
	}
	if len(after) != schedules || verdict.Checked < schedules*3 {
		t.Fatalf("only %d ticks of %d schedules came, want at least 3 of each of %d", verdict.Checked, len(after), schedules)
	}
	var late []time.Duration
	for _, j := range jobs {
		late = append(late, j.CreatedAt.Sub(j.Tick))
	}
	slices.Sort(late)
	at := func(q float64) time.Duration { return late[int(q*float64(len(late)-1))].Round(100 * time.Microsecond) }
	t.Logf("%d ticks of %d schedules, %d kills; jobs came late by %v in the median, %v (99 %%), %v at most", verdict.Checked, schedules, kills, at(0.5), at(0.99), at(1))
}
