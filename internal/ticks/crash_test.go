package ticks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab"
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
	ticks, late := judge(t, db, list)
	slices.Sort(late)
	if len(late) > 0 {
		at := func(q float64) time.Duration { return late[int(q*float64(len(late)-1))].Round(100 * time.Microsecond) }
		t.Logf("%d ticks of %d schedules, %d kills; jobs came late by %v in the median, %v (99 %%), %v at most", ticks, schedules, kills, at(0.5), at(0.99), at(1))
	}
	if ticks < schedules*3 {
		t.Errorf("only %d ticks came", ticks)
	}
}

// judge is the oracle. It expects that the jobs of each schedule are for consecutive ticks,
// from its first to its last, and returns how many there are and how late they were enqueued.
func judge(t *testing.T, db dibs.Database, list []dibs.Schedule) (n int, late []time.Duration) {
	t.Helper()
	of := map[string][]time.Time{}
	for f := (dibs.Filter{Queue: "q", Limit: 1000}); ; {
		page, err := db.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			of[j.Schedule] = append(of[j.Schedule], j.Tick)
			late = append(late, j.CreatedAt.Sub(j.Tick))
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	after, err := db.Schedules(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(list) || len(of) != len(list) {
		t.Fatalf("jobs of %d schedules, %d are left, want %d", len(of), len(after), len(list))
	}
	for _, s := range after {
		ticks := of[s.Name]
		slices.SortFunc(ticks, time.Time.Compare)
		want := s.Since
		for i, tick := range ticks {
			if want = want.Add(time.Second); !tick.Equal(want) {
				t.Errorf("schedule %s: the job of place %s is for %v, want %v", s.Name, strconv.Itoa(i), tick, want)
				break
			}
		}
		if !s.LastTick.Equal(want) {
			t.Errorf("schedule %s: the last job is for %v, the last tick %v", s.Name, want, s.LastTick)
		}
		if !s.Next.Equal(want.Add(time.Second)) {
			t.Errorf("schedule %s: the next tick is %v, want %v", s.Name, s.Next, want.Add(time.Second))
		}
		n += len(ticks)
	}
	return n, late
}
