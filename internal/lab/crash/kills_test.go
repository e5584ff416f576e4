package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

// plan says what processes do while one after the other is killed, and how the outcome is judged.
type plan struct {
	work      func(context.Context, admin.Database) error // what a process does until its context ends
	prepare   func(context.Context, admin.Database) error // is called once; nil: nothing
	pause     time.Duration                               // between two kills
	processes int
	lasts     time.Duration
	soak      int // how many processes there are in make soak, where it lasts 10 minutes
	least     int // how many jobs there must be to judge
	judge     func(ctx context.Context, db admin.Database, jobs []*dibs.RawJob) (history.Verdict, error)
}

var plans = map[string]plan{
	"ticks": {
		work: lookAfter, prepare: setSchedules, pause: time.Second, processes: 3, lasts: 12 * time.Second, soak: 8, least: 3 * schedules(), judge: judgeTicks,
	},
	"periods": {
		work: enqueueAndWork, pause: 300 * time.Millisecond, processes: 4, lasts: 6 * time.Second, soak: 8, least: 20, judge: judgePeriods,
	},
}

// order tells a process of these tests which plan to follow, in which database.
type order struct{ Plan, URL string }

func TestMain(m *testing.M) {
	lab.Obey(func(ctx context.Context, o order) error {
		db, err := open.Database(context.WithoutCancel(ctx), open.URL(o.URL), open.Options{}) // stdin may end meanwhile
		if err != nil {
			return err
		}
		defer db.Close()
		return plans[o.Plan].work(ctx, db)
	})
	os.Exit(m.Run())
}

// Processes look after schedules that are due every second.
func TestEachTickHasOneJobThroughKills(t *testing.T) {
	needs.Long(t)
	throughKills(t, "ticks")
}

// Processes enqueue jobs with the same few keys, each unique for a period.
func TestAPeriodHasOneJobThroughKills(t *testing.T) {
	needs.Long(t)
	throughKills(t, "periods")
}

func throughKills(t *testing.T, name string) {
	for database, url := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "dibs.db") },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			follow(t, name, url(t))
		})
	}
}

func follow(t *testing.T, name, url string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, ctx := plans[name], t.Context()
	if soaked() {
		p.processes, p.lasts = p.soak, 10*time.Minute
	}
	must(open.Migrate(ctx, open.URL(url), open.Options{}))
	db, err := open.Database(ctx, open.URL(url), open.Options{})
	must(err)
	defer db.Close()
	crew := lab.Crew{Dir: t.TempDir()}
	defer crew.KillAll()
	for i := range p.processes {
		crew.Add(fmt.Sprint("process-", i), func(string, int) (*exec.Cmd, error) { return lab.Self(order{name, url}) })
	}
	must(crew.Start())
	if p.prepare != nil {
		must(p.prepare(ctx, db))
	}
	kills, err := crew.KillInTurn(p.pause, p.lasts)
	must(err)
	// On a slow machine each process is killed before it does much, so the last ones go on until there is enough
	// to judge.
	var jobs []*dibs.RawJob
	for end := time.Now().Add(5 * time.Minute); len(jobs) < p.least && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		jobs, err = history.Jobs(ctx, db, admin.Filter{Queue: "q"})
		must(err)
	}
	must(crew.Stop(time.Minute))
	jobs, err = history.Jobs(ctx, db, admin.Filter{Queue: "q"})
	must(err)
	verdict, err := p.judge(ctx, db, jobs)
	must(err)
	for _, line := range history.Broken([]history.Verdict{verdict}) {
		t.Error(line)
	}
	if verdict.Checked < p.least {
		t.Errorf("only %d jobs were enqueued", verdict.Checked)
	}
	if found, err := db.Check(ctx); err != nil || len(found) > 0 {
		t.Errorf("consistency check: %q, %v", found, err)
	}
	t.Logf("%d jobs, %d kills%s", len(jobs), kills, lateness(jobs))
}

func soaked() bool { return os.Getenv("DIBS_SOAK") != "" }

// lateness says how late the jobs of schedules were enqueued.
func lateness(jobs []*dibs.RawJob) string {
	var late []time.Duration
	for _, j := range jobs {
		if j.Schedule != "" {
			late = append(late, j.CreatedAt.Sub(j.Tick))
		}
	}
	if len(late) == 0 {
		return ""
	}
	slices.Sort(late)
	at := func(q float64) time.Duration { return late[int(q*float64(len(late)-1))].Round(100 * time.Microsecond) }
	return fmt.Sprintf("; they came late by %v in the median, %v (99 %%), %v at most", at(0.5), at(0.99), at(1))
}

// schedules returns how many schedules the test sets.
func schedules() int {
	if soaked() {
		return 1000
	}
	return 50
}

func setSchedules(ctx context.Context, db admin.Database) error {
	list := make([]dibs.Schedule, schedules())
	for i := range list {
		// All ticks count, however long the processes are away on a slow machine.
		list[i] = dibs.Schedule{Name: fmt.Sprintf("s%04d", i), Spec: "every 1s", Kind: "k", Queue: "q", Missed: dibs.MissedAll, MissedLimit: dibs.MaxMissed}
	}
	return db.SetSchedules(ctx, "test", list)
}

func lookAfter(ctx context.Context, db admin.Database) error {
	w := dibs.Worker{Store: db, Queue: "nothing", Hooks: dibs.Hooks{Error: func(string, error) {}}}
	w.HandleRaw("", func(context.Context, *dibs.RawJob) error { return nil })
	return w.Run(ctx)
}

func judgeTicks(ctx context.Context, db admin.Database, jobs []*dibs.RawJob) (history.Verdict, error) {
	list, err := db.Schedules(ctx)
	if len(list) != schedules() {
		err = errors.Join(err, fmt.Errorf("%d schedules are left", len(list)))
	}
	return history.Ticks(list, jobs, time.Second), err
}

// period is how long each job holds its unique key.
const period = 150 * time.Millisecond

func judgePeriods(_ context.Context, _ admin.Database, jobs []*dibs.RawJob) (history.Verdict, error) {
	return history.Periods(jobs, period), nil
}

func enqueueAndWork(ctx context.Context, db admin.Database) error {
	for ctx.Err() == nil {
		if err := enqueueAndWorkOnce(ctx, db); err != nil && !errors.Is(err, dibs.ErrUnavailable) && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// enqueueAndWorkOnce enqueues jobs with few keys, alone or in a transaction, which may be rolled
// back, and completes some.
func enqueueAndWorkOnce(ctx context.Context, db admin.Database) error {
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
