package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/metrics"
)

// manyQueues returns statistics of n queues, of which the last one is the busiest.
func manyQueues(n int) (all []admin.QueueStats) {
	for i := range n {
		all = append(all, admin.QueueStats{Queue: fmt.Sprintf("q%05d", i), Waiting: int64(i), OldestAge: time.Duration(i) * time.Second, Claimed: 2, AvgWait: 30 * 24 * time.Hour})
	}
	return all
}

func TestOfTenThousandQueuesTheBusiestHaveLabels(t *testing.T) {
	t.Parallel()
	const n = 10_000
	db := &counting{Database: lite(t), stats: manyQueues(n)}
	r := prometheus.NewRegistry()
	if err := metrics.Register(r, db); err != nil {
		t.Fatal(err)
	}
	got := values(t, r)
	rest := n - metrics.MaxQueues
	expect(t, got, map[string]float64{
		"queues{}": n, "queue_jobs{q09999,waiting}": n - 1, fmt.Sprintf("queue_jobs{q%05d,waiting}", rest): float64(rest),
		"queue_jobs{other,waiting}": float64(rest * (rest - 1) / 2), "queue_oldest_age_seconds{other}": float64(rest - 1),
		"queue_recent_jobs{claimed,other}": float64(2 * rest), "queue_recent_wait_seconds{other}": 30 * 24 * 3600,
	})
	waiting := 0
	for name := range got {
		if strings.HasPrefix(name, "queue_jobs{") && strings.HasSuffix(name, ",waiting}") {
			waiting++
		}
	}
	if waiting != metrics.MaxQueues+1 {
		t.Errorf("%d queues have labels", waiting)
	}
}

func TestAQueueKeepsItsLabelUntilItIsGone(t *testing.T) {
	t.Parallel()
	db := &counting{Database: lite(t), stats: manyQueues(metrics.MaxQueues)}
	r := prometheus.NewRegistry()
	if err := metrics.Register(r, db); err != nil {
		t.Fatal(err)
	}
	values(t, r)
	busy := admin.QueueStats{Queue: "busy", Waiting: 1 << 40}
	db.stats = append(manyQueues(metrics.MaxQueues), busy)
	time.Sleep(metrics.StatsFor)
	expect(t, values(t, r), map[string]float64{"queue_jobs{q00000,waiting}": 0, "queue_jobs{other,waiting}": 1 << 40})
	db.stats = append(manyQueues(metrics.MaxQueues-1), busy)
	time.Sleep(metrics.StatsFor)
	got := values(t, r)
	expect(t, got, map[string]float64{"queue_jobs{busy,waiting}": 1 << 40})
	if _, there := got["queue_jobs{other,waiting}"]; there {
		t.Error("nothing is beyond the limit, and other is there")
	}
}

// hostile are names that nobody should use, and that rows of an adopted table or SQL by hand may have.
var hostile = []string{
	"a\nb", `a"b`, `a\b`, "a\xffb", "a\xfeb", "a\uFFFDb", "", "{}", "a\x00b", "\u202Eevil", "other", strings.Repeat("é", 300), `x"} 1` + "\ndibs_up 7\n#", "\r\n", "\x1b[31m",
}

func TestHostileNamesBreakNothing(t *testing.T) {
	t.Parallel()
	db := &counting{Database: lite(t), stats: []admin.QueueStats{}}
	var jobs []*dibs.RawJob
	for i, name := range hostile {
		db.stats = append(db.stats, admin.QueueStats{Queue: name, Waiting: 1 << i})
		jobs = append(jobs, &dibs.RawJob{Queue: name, Kind: name})
	}
	r := prometheus.NewRegistry()
	w := &dibs.Worker{Store: db}
	w.HandleRaw("", func(context.Context, *dibs.RawJob) error { return nil })
	if err := metrics.Register(r, db, w); err != nil {
		t.Fatal(err)
	}
	w.Hooks.Claimed(jobs, time.Second)
	for _, job := range jobs {
		w.Hooks.Finished(dibs.Attempt{Job: job, Outcome: dibs.Outcome{Ending: dibs.EndCompleted}})
		w.Hooks.LeaseLost(job, errors.New("a\xffb"))
	}
	// The text is read back without loss.
	if err := testutil.GatherAndCompare(r, strings.NewReader(text(t, r)), "dibs_up", "dibs_queue_jobs", "dibs_claimed_jobs_total"); err != nil {
		t.Fatal(err)
	}
	all := values(t, r)
	waiting, claimed := 0.0, 0.0
	for name, value := range all {
		switch {
		case strings.HasPrefix(name, "queue_jobs{"):
			waiting += value
		case strings.HasPrefix(name, "claimed_jobs_total{"):
			claimed += value
		}
	}
	if waiting != float64(int(1)<<len(hostile)-1) || claimed != float64(len(hostile)) {
		t.Errorf("%v jobs wait, and %v were claimed", waiting, claimed)
	}
	expect(t, all, map[string]float64{"up{}": 1, `queue_jobs{a"b,waiting}`: 2, "queue_jobs{a\nb,waiting}": 1, "queue_jobs{a\uFFFDb,waiting}": 8 + 16 + 32})
}

func TestEachOutcomeIsCountedByItsName(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	w := &dibs.Worker{Store: lite(t)}
	w.HandleRaw("", func(context.Context, *dibs.RawJob) error { return nil })
	if err := metrics.Register(r, nil, w); err != nil {
		t.Fatal(err)
	}
	job := &dibs.RawJob{Queue: "q", Kind: "k"}
	completed := dibs.Outcome{Ending: dibs.EndCompleted}
	for _, a := range []dibs.Attempt{
		{Outcome: completed},
		{Outcome: completed, NotWritten: fmt.Errorf("refused: %w", dibs.ErrLeaseLost)},
		{Outcome: completed, NotWritten: dibs.ErrUnavailable},
		{},
		{Outcome: dibs.Outcome{Ending: dibs.EndRelease}},
		{Outcome: dibs.Outcome{Ending: dibs.EndCancelled}, Ran: time.Second},
	} {
		a.Job = job
		w.Hooks.Finished(a)
	}
	w.Hooks.Claimed([]*dibs.RawJob{job, {Queue: "q", Kind: "k", RunAt: time.Now(), ClaimedAt: time.Now()}}, 0)
	w.Hooks.LeaseLost(job, dibs.ErrLeaseLost)
	expect(t, values(t, r), map[string]float64{
		"attempts_total{k,completed,q}": 1, "attempts_total{k,lost,q}": 1, "attempts_total{k,unwritten,q}": 1, "attempts_total{k,finished,q}": 1,
		"attempts_total{k,release,q}": 1, "attempts_total{k,cancelled,q}": 1, "attempts_total{k,dead,q}": 0,
		"job_run_seconds{k,q}": 1, "claimed_jobs_total{k,q}": 2, "job_wait_seconds{k,q}": 1, "lost_leases_total{k,q}": 1,
	})
}

func TestSeriesOfAWorkerAreBounded(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	w := &dibs.Worker{Store: lite(t)}
	w.HandleRaw("", func(context.Context, *dibs.RawJob) error { return nil })
	if err := metrics.Register(r, nil, w); err != nil {
		t.Fatal(err)
	}
	const queues, kinds = 2 * metrics.MaxQueues, 2 * metrics.MaxKinds
	for q := range queues {
		for k := range kinds {
			w.Hooks.Claimed([]*dibs.RawJob{{Queue: fmt.Sprint("q", q), Kind: fmt.Sprint("k", k)}}, 0)
		}
	}
	claimed, series := 0.0, 0
	for name, v := range values(t, r) {
		if strings.HasPrefix(name, "claimed_jobs_total{") {
			claimed, series = claimed+v, series+1
		}
	}
	if claimed != queues*kinds || series != metrics.MaxPairs+1 {
		t.Errorf("%v claims in %d series", claimed, series)
	}
}

func TestAScrapeCostsOneStatisticsStatement(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		c := &counting{Database: db}
		r := prometheus.NewRegistry()
		if err := metrics.Register(r, c); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		scrapes := 0
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := r.Gather(); err != nil {
					t.Error(err)
				}
			})
			scrapes++
		}
		all.Wait()
		if most := 1 + int(time.Since(begin)/metrics.StatsFor); c.calls["stats"] > most {
			t.Errorf("%d scrapes read the statistics %d times, the limit is %d", scrapes, c.calls["stats"], most)
		}
		time.Sleep(metrics.StatsFor)
		values(t, r)
		if c.calls["stats"] < 2 {
			t.Error("a later scrape has old statistics")
		}
		if time.Since(begin) < 10*time.Second && (c.calls["workers"] != 1 || c.calls["schedules"] != 1) {
			t.Errorf("the lists were read anew: %v", c.calls)
		}
	})
}

func TestWhileTheDatabaseIsAwayTheProcessIsShown(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	url := open.URL(server.URL())
	if err := open.Migrate(t.Context(), url, open.Options{}); err != nil {
		t.Fatal(err)
	}
	db := database(t, url)
	r, _ := worked(t, db)
	expect(t, values(t, r), map[string]float64{"up{}": 1})
	server.Stop(pgtest.Fast)
	time.Sleep(metrics.StatsFor)
	got := values(t, r)
	expect(t, got, map[string]float64{"up{}": 0, "attempts_total{good,completed,mail}": 2})
	if _, there := got["queue_jobs{mail,waiting}"]; there {
		t.Error("a count is shown that nobody has read")
	}
	if values(t, r)["store_call_errors_total{stats,unavailable}"] == 0 {
		t.Error("the call that failed is not counted")
	}
	server.Start()
	time.Sleep(metrics.StatsFor)
	for end := time.Now().Add(patience); values(t, r)["up{}"] == 0; time.Sleep(metrics.StatsFor) {
		if time.Now().After(end) {
			t.Fatal("the database is back, and dibs_up is 0")
		}
	}
}

// hanging is a database that answers nothing.
type hanging struct{ admin.Database }

func (hanging) Stats(ctx context.Context) ([]admin.QueueStats, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAScrapeWaitsForTheDatabaseTwoSecondsOnly(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	if err := metrics.Register(r, hanging{lite(t)}); err != nil {
		t.Fatal(err)
	}
	expect(t, values(t, r), map[string]float64{"up{}": 0})
	if values(t, r)["store_call_errors_total{stats,timeout}"] == 0 {
		t.Error("the call that timed out is not counted")
	}
}

func TestWhatCannotBeRegistered(t *testing.T) {
	t.Parallel()
	db := lite(t)
	for name, err := range map[string]error{
		"registerer": metrics.Register(nil, db),
		"workers":    metrics.Register(prometheus.NewRegistry(), db, nil),
	} {
		if !errors.Is(err, dibs.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := metrics.Register(prometheus.NewRegistry(), db, &dibs.Worker{}); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("a worker without a store: %v", err)
	}
	if _, err := metrics.Observe(prometheus.NewRegistry(), nil); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("no database: %v", err)
	}
	r := prometheus.NewRegistry()
	if err := errors.Join(metrics.Register(r, db), metrics.Register(r, nil, &dibs.Worker{Store: db})); err != nil {
		t.Error(err)
	}
	if err := metrics.Register(r, lite(t)); err == nil {
		t.Error("two databases have the same metrics")
	}
	for _, name := range []string{"a", "b"} {
		if err := metrics.Register(prometheus.WrapRegistererWith(prometheus.Labels{"database": name}, r), lite(t)); err == nil {
			t.Error("a name beside one without labels")
		}
	}
	r = prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		if err := metrics.Register(prometheus.WrapRegistererWith(prometheus.Labels{"database": name}, r), lite(t)); err != nil {
			t.Error(err)
		}
	}
	if up := values(t, r); up["up{a}"] != 1 || up["up{b}"] != 1 {
		t.Errorf("of two databases: %v", up)
	}
}

// Workers of one process, whose hooks run at the same time, and scrapes.
func TestWorkersAndScrapesAtTheSameTime(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		const workers, jobs = 4, 400
		r := prometheus.NewRegistry()
		if err := metrics.Register(r, db); err != nil {
			t.Fatal(err)
		}
		list := make([]dibs.NewJob, jobs)
		for i := range list {
			list[i] = dibs.NewJob{Queue: fmt.Sprint("q", i%workers), Kind: fmt.Sprint("k", i%3)}
		}
		if _, err := db.Enqueue(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				w := &dibs.Worker{Store: db, Queue: fmt.Sprint("q", i)}
				w.HandleRaw("", func(context.Context, *dibs.RawJob) error { return nil })
				if err := metrics.Register(r, nil, w); err != nil {
					t.Error(err)
				}
				if err := w.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		for done := 0.0; done < jobs && ctx.Err() == nil; {
			done = 0
			for name, v := range values(t, r) {
				if strings.HasPrefix(name, "attempts_total{") && strings.Contains(name, ",completed,") {
					done += v
				}
			}
		}
		stop()
		all.Wait()
		got := values(t, r)
		for i := range jobs {
			if want := float64(jobs / workers / 3); got[fmt.Sprintf("attempts_total{k%d,completed,q%d}", i%3, i%workers)] < want {
				t.Fatalf("of some jobs there are fewer than %v: %v", want, got)
			}
		}
	})
}

// A server counts the jobs that its clients claim. It does not know how their attempts end, and has no metrics about
// that.
func TestAServerCountsWhatIsClaimed(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		r := prometheus.NewRegistry()
		seen, err := metrics.Observe(r, db)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := seen.Enqueue(t.Context(), []dibs.NewJob{{Queue: "mail", Kind: "k"}, {Queue: "mail", Kind: "k"}, {Queue: "mail", Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
		jobs, err := seen.Claim(t.Context(), dibs.ClaimRequest{Queue: "mail", Worker: "w", N: 2, Lease: time.Minute})
		if err != nil || len(jobs) != 2 {
			t.Fatal(len(jobs), err)
		}
		if err := seen.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil), jobs[1].Lease().Die("no")}); err != nil {
			t.Fatal(err)
		}
		got := values(t, r)
		expect(t, got, map[string]float64{"enqueued_jobs_total{k,mail}": 3, "claimed_jobs_total{k,mail}": 2, "job_wait_seconds{k,mail}": 2, "store_call_seconds{finish}": 1})
		for name := range got {
			if strings.HasPrefix(name, "attempts_total") || strings.HasPrefix(name, "lost_leases_total") || strings.HasPrefix(name, "job_run_seconds") {
				t.Errorf("it shows %s, of which it knows nothing", name)
			}
		}
	})
}
