package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/metrics"
)

func TestMain(m *testing.M) {
	needs.Split()
	// The server that all PostgreSQL tests share lives as long as this process.
	goleak.VerifyTestMain(pgtest.M{M: m}, goleak.IgnoreAnyFunction("github.com/dibs-queue/dibs/internal/lab/pgserver.(*Server).run.func1"))
}

const patience = time.Minute

// onDatabases runs a test on a fresh database of each sort.
func onDatabases(t *testing.T, f func(t *testing.T, db admin.Database)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, lite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := open.URL(pgtest.URL(t))
		if err := open.Migrate(t.Context(), url, open.Options{}); err != nil {
			t.Fatal(err)
		}
		f(t, database(t, url))
	})
}

func lite(t testing.TB) admin.Database {
	return database(t, open.URL("sqlite:"+filepath.Join(t.TempDir(), "jobs.db")))
}

func database(t testing.TB, url open.URL) admin.Database {
	t.Helper()
	db, err := open.Database(t.Context(), url, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// counting counts the calls of a database, and fails them while it is away.
type counting struct {
	admin.Database
	mu    sync.Mutex
	calls map[string]int
	away  bool
	stats []admin.QueueStats // what Stats answers, if not nil
}

func (c *counting) call(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[name]++
	if c.away {
		return dibs.ErrUnavailable
	}
	return nil
}

func (c *counting) Stats(ctx context.Context) ([]admin.QueueStats, error) {
	if err := c.call("stats"); err != nil {
		return nil, err
	}
	if c.stats != nil {
		return c.stats, nil
	}
	return c.Database.Stats(ctx)
}

func (c *counting) Workers(ctx context.Context) ([]dibs.WorkerInfo, error) {
	if err := c.call("workers"); err != nil {
		return nil, err
	}
	return c.Database.Workers(ctx)
}

func (c *counting) Schedules(ctx context.Context, names ...string) ([]dibs.Schedule, error) {
	if err := c.call("schedules"); err != nil {
		return nil, err
	}
	return c.Database.Schedules(ctx, names...)
}

// run runs a worker until all jobs have ended.
func run(t *testing.T, w *dibs.Worker, until func() bool) {
	t.Helper()
	w.Hooks.Log = slog.New(slog.DiscardHandler)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	go func() {
		for !until() && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		stop()
	}()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !until() {
		t.Fatal("the jobs have not ended")
	}
}

// values returns the samples of a scrape by name and labels: values of counters and gauges, and counts
// of histograms.
func values(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), "dibs_") + "{" + strings.Join(labels, ",") + "}"
			switch f.GetType().String() {
			case "COUNTER":
				all[name] = m.Counter.GetValue()
			case "HISTOGRAM":
				all[name] = float64(m.Histogram.GetSampleCount())
			default:
				all[name] = m.Gauge.GetValue()
			}
		}
	}
	return all
}

func expect(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		if v, there := got[name]; !there || v != value {
			t.Errorf("%s is %v (there: %v), want %v", name, v, there, value)
		}
	}
}

// errMistake is why an attempt fails.
var errMistake = errors.New("mistake")

// worked is a registry after a worker has run one job of each outcome; labels are in the order of their names.
func worked(t *testing.T, db admin.Database) (r *prometheus.Registry, own map[string]int) {
	t.Helper()
	r, own = prometheus.NewRegistry(), map[string]int{}
	w := &dibs.Worker{Store: db, Queue: "mail", Concurrency: 3, Hooks: dibs.Hooks{
		Claimed:  func(jobs []*dibs.RawJob, _ time.Duration) { own["claimed"] += len(jobs) },
		Started:  func(context.Context, *dibs.RawJob) { own["started"]++ },
		Finished: func(dibs.Attempt) { own["finished"]++; panic("a hook of the user's") },
	}}
	returns := map[string]error{"good": nil, "bad": dibs.Retry(errMistake), "worse": dibs.Die(errMistake), "later": dibs.Snooze(time.Hour)}
	for kind, err := range returns {
		w.HandleRaw(kind, func(context.Context, *dibs.RawJob) error {
			time.Sleep(time.Millisecond)
			return err
		})
	}
	if err := metrics.Register(r, db, w); err != nil {
		t.Fatal(err)
	}
	_, err := db.Enqueue(t.Context(), []dibs.NewJob{
		{Queue: "mail", Kind: "good"},
		{Queue: "mail", Kind: "good", UniqueKey: "k"},
		{Queue: "mail", Kind: "bad", MaxAttempts: 1},
		{Queue: "mail", Kind: "worse"},
		{Queue: "mail", Kind: "later"},
		{Queue: "mail", Kind: "good", RunAt: time.Now().Add(time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.SetSchedule(t.Context(), dibs.Schedule{Name: "nightly", Spec: "@daily", Queue: "mail", Kind: "good"}); err != nil {
		t.Fatal(err)
	}
	run(t, w, func() bool {
		stats, err := db.Stats(t.Context())
		return err == nil && stats[0].Succeeded == 2 && stats[0].Dead == 2 && stats[0].Running == 0 && stats[0].Scheduled == 2
	})
	return r, own
}

func TestAWorkerAndItsDatabaseAreMeasured(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		r, own := worked(t, db)
		values(t, r) // the call for the statistics is measured by the next scrape
		got := values(t, r)
		expect(t, got, map[string]float64{
			"up{}": 1, "queues{}": 1,
			"enqueued_jobs_total{good,mail}": 3, "enqueued_jobs_total{bad,mail}": 1,
			"claimed_jobs_total{good,mail}": 2, "claimed_jobs_total{later,mail}": 1,
			"attempts_total{good,completed,mail}": 2, "attempts_total{good,dead,mail}": 0, "attempts_total{bad,dead,mail}": 1, "attempts_total{bad,retry,mail}": 0,
			"attempts_total{worse,dead,mail}": 1, "attempts_total{later,snooze,mail}": 1,
			"job_wait_seconds{good,mail}": 2, "job_run_seconds{good,mail}": 2, "job_run_seconds{worse,mail}": 1,
			"queue_jobs{mail,completed}": 2, "queue_jobs{mail,dead}": 2, "queue_jobs{mail,waiting}": 2, "queue_jobs{mail,running}": 0,
			"queue_scheduled_jobs{mail}": 2, "queue_oldest_age_seconds{mail}": 0, "queue_paused{mail}": 0, "queue_rate_held{mail}": 0,
			"queue_recent_jobs{enqueued,mail}": 6, "queue_recent_jobs{succeeded,mail}": 2, "queue_recent_jobs{failed,mail}": 2,
			"schedules{active}": 1, "schedule_lateness_seconds{}": 0, "workers{lost}": 0, "queue_workers{mail}": 0,
			"worker_concurrency{}": 3, "worker_running_handlers{}": 0, "store_call_seconds{enqueue}": 1,
		})
		for _, call := range []string{"claim", "finish", "stats"} {
			if got["store_call_seconds{"+call+"}"] == 0 {
				t.Errorf("no %s was measured", call)
			}
		}
		if batches := got["store_batch_calls{write}"] + got["store_batch_calls{claim}"]; batches == 0 {
			t.Error("no batch was measured")
		}
		if own["claimed"] != 5 || own["started"] != 5 || own["finished"] != 5 {
			t.Errorf("the worker's own hooks saw %v", own)
		}
	})
}

// TestTheNamesAreThese lists every metric with its type, help and labels, and has Prometheus' linter read them.
func TestTheNamesAreThese(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("needs PostgreSQL")
	}
	url := open.URL(pgtest.URL(t))
	if err := open.Migrate(t.Context(), url, open.Options{}); err != nil {
		t.Fatal(err)
	}
	db := database(t, url)
	r, _ := worked(t, db)
	seen, err := metrics.Observe(prometheus.WrapRegistererWith(prometheus.Labels{"part": "b"}, prometheus.NewRegistry()), db)
	if err != nil || seen == nil {
		t.Fatal(err)
	}
	metrics.TouchAll(t, r)
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		labels := map[string]bool{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels[l.GetName()] = true
			}
		}
		var names []string
		for name := range labels {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "%s %s {%s}\n    %s\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(names, ","), f.GetHelp())
	}
	golden.Match(t, "names.txt", b.String())
	for _, name := range metrics.Described() {
		if !strings.Contains(b.String(), name+" ") {
			t.Errorf("%s is described, and not there", name)
		}
	}
}

// text is what a scrape answers.
func text(t *testing.T, r prometheus.Gatherer) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Body)
	}
	return answer.Body.String()
}
