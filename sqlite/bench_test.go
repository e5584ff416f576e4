package sqlite_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

// Run them with: go test ./sqlite -run '^$' -bench . -benchtime 2s

var payload = []byte(fmt.Sprintf(`{"to":"someone@example.com","text":"%060d"}`, 0)) // 100 bytes

func newJobs(n int) []dibs.NewJob {
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Kind: "email", Payload: payload}
	}
	return jobs
}

func fill(b *testing.B, s *sqlite.Store, n int, change func(i int, j *dibs.NewJob)) {
	b.Helper()
	for done := 0; done < n; {
		jobs := newJobs(min(n-done, dibs.MaxBatch))
		for i := range jobs {
			if change != nil {
				change(done+i, &jobs[i])
			}
		}
		if _, err := s.Enqueue(b.Context(), jobs); err != nil {
			b.Fatal(err)
		}
		done += len(jobs)
	}
}

func perSecond(b *testing.B, jobs int64, what string) {
	b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), what+"/s")
}

func BenchmarkEnqueue(b *testing.B) {
	for _, n := range []int{1, 100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			s := openStore(b, sqlite.Options{})
			jobs := newJobs(n)
			b.ResetTimer()
			for range b.N {
				if _, err := s.Enqueue(b.Context(), jobs); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b, int64(b.N*n), "jobs")
		})
	}
}

// BenchmarkNewJob enqueues by way of the view, as programs in other languages do, on a connection
// with the writer's settings.
func BenchmarkNewJob(b *testing.B) {
	for n, insert := range map[int]string{
		1:     "insert into dibs_new_job (queue, kind, payload) values ('default', 'email', ?)",
		1_000: "insert into dibs_new_job (queue, kind, payload) select 'default', 'email', ? from json_each('[0" + strings.Repeat(",0", 999) + "]')",
	} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			s := openStore(b, sqlite.Options{})
			statement, err := s.DB().PrepareContext(b.Context(), insert)
			if err != nil {
				b.Fatal(err)
			}
			defer statement.Close() //nolint:errcheck // it has run
			b.ResetTimer()
			for range b.N {
				if _, err := statement.ExecContext(b.Context(), string(payload)); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b, int64(b.N*n), "jobs")
		})
	}
}

// callers runs f in n goroutines, b.N times in all.
func callers(b *testing.B, n int, f func(ctx context.Context) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

func BenchmarkEnqueueFrom(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			s := openStore(b, sqlite.Options{})
			callers(b, n, func(ctx context.Context) error {
				_, err := s.Enqueue(ctx, newJobs(1))
				return err
			})
			perSecond(b, int64(b.N), "jobs")
		})
	}
}

// BenchmarkDrain claims and completes enqueued jobs; one op is one job.
func BenchmarkDrain(b *testing.B) {
	for _, c := range []struct{ batch, workers int }{{1, 1}, {1, 64}, {10, 4}, {100, 1}, {100, 4}, {1_000, 4}} {
		b.Run(fmt.Sprintf("batch=%d/workers=%d", c.batch, c.workers), func(b *testing.B) {
			s := openStore(b, sqlite.Options{})
			fill(b, s, b.N, nil)
			drain(b, s, c.batch, c.workers)
		})
	}
}

func BenchmarkDrainGroups(b *testing.B) {
	for _, groups := range []int{10, 6_000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			s := openStore(b, sqlite.Options{})
			fill(b, s, b.N, func(i int, j *dibs.NewJob) { j.Group = fmt.Sprint(i % groups) })
			drain(b, s, 100, 4)
		})
	}
}

func drain(b *testing.B, s *sqlite.Store, batch, workers int) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range workers {
		wg.Go(func() {
			for left.Load() > 0 {
				jobs, err := s.Claim(b.Context(), dibs.ClaimRequest{Worker: fmt.Sprint("w", w), N: batch})
				if err != nil {
					b.Error(err)
					return
				}
				if len(jobs) == 0 {
					continue
				}
				outcomes := make([]dibs.Outcome, len(jobs))
				for i, j := range jobs {
					outcomes[i] = j.Lease().Complete(nil)
				}
				if err := s.Finish(b.Context(), outcomes); err != nil {
					b.Error(err)
					return
				}
				left.Add(-int64(len(jobs)))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	perSecond(b, int64(b.N), "jobs")
}

// changes are calls that change all jobs with these ids. Those that were claimed or have ended wait again after each round.
var changes = []struct {
	name  string
	round func(b *testing.B, s *sqlite.Store, ids []int64) (changed int, err error)
}{
	{"edit", func(b *testing.B, s *sqlite.Store, ids []int64) (int, error) {
		priority := 1
		done, err := s.Edit(b.Context(), ids, admin.Edit{Priority: &priority})
		return len(done), err
	}},
	{"cancel-requeue", func(b *testing.B, s *sqlite.Store, ids []int64) (int, error) {
		if ended, _, err := s.Cancel(b.Context(), ids); err != nil {
			return len(ended), err
		}
		done, err := s.Requeue(b.Context(), ids, time.Time{})
		return len(done), err
	}},
	{"claim-retry", func(b *testing.B, s *sqlite.Store, ids []int64) (int, error) {
		return len(ids), claimAndFinish(b, s, len(ids), func(l dibs.Lease) dibs.Outcome { return l.RetryAfter(0, "the mail server is down") })
	}},
	{"claim-result-requeue", func(b *testing.B, s *sqlite.Store, ids []int64) (int, error) {
		if err := claimAndFinish(b, s, len(ids), func(l dibs.Lease) dibs.Outcome { return l.Complete(payload) }); err != nil {
			return 0, err
		}
		done, err := s.Requeue(b.Context(), ids, time.Time{})
		return len(done), err
	}},
}

func claimAndFinish(b *testing.B, s *sqlite.Store, n int, outcome func(dibs.Lease) dibs.Outcome) error {
	jobs, err := s.Claim(b.Context(), dibs.ClaimRequest{Worker: "w", N: n, Lease: time.Hour})
	if err != nil || len(jobs) != n {
		b.Fatal(err, len(jobs))
	}
	outcomes := make([]dibs.Outcome, n)
	for i, j := range jobs {
		outcomes[i] = outcome(j.Lease())
	}
	return s.Finish(b.Context(), outcomes)
}

func BenchmarkChange(b *testing.B) {
	for _, c := range changes {
		for _, n := range []int{1, 100, 1_000} {
			b.Run(fmt.Sprintf("%s/jobs=%d", c.name, n), func(b *testing.B) {
				s := openStore(b, sqlite.Options{})
				jobs := newJobs(n)
				for i := range jobs {
					jobs[i].MaxAttempts = 1_000_000
				}
				added, err := s.Enqueue(b.Context(), jobs)
				if err != nil {
					b.Fatal(err)
				}
				ids := make([]int64, n)
				for i, e := range added {
					ids[i] = e.ID
				}
				b.ResetTimer()
				for range b.N {
					if changed, err := c.round(b, s, ids); err != nil || changed != n {
						b.Fatal(err, changed)
					}
				}
				perSecond(b, int64(b.N*n), "jobs")
			})
		}
	}
}

// BenchmarkFinishWide completes jobs with large results.
func BenchmarkFinishWide(b *testing.B) {
	const n = 20
	for _, size := range []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, dibs.MaxResult} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			s := openStore(b, sqlite.Options{})
			result := []byte(`"` + strings.Repeat("x", size-2) + `"`)
			b.SetBytes(int64(n * size))
			for range b.N {
				b.StopTimer()
				fill(b, s, n, nil)
				jobs, err := s.Claim(b.Context(), dibs.ClaimRequest{Worker: "w", N: n, Lease: time.Hour})
				if err != nil || len(jobs) != n {
					b.Fatal(err, len(jobs))
				}
				outcomes := make([]dibs.Outcome, n)
				for i, j := range jobs {
					outcomes[i] = j.Lease().Complete(result)
				}
				b.StartTimer()
				if err := s.Finish(b.Context(), outcomes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkExtend(b *testing.B) {
	for _, n := range []int{1, 100, 1_000} {
		b.Run(fmt.Sprintf("leases=%d", n), func(b *testing.B) {
			s := openStore(b, sqlite.Options{})
			fill(b, s, n, nil)
			jobs, err := s.Claim(b.Context(), dibs.ClaimRequest{Worker: "w", N: n, Lease: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			leases := make([]dibs.Lease, len(jobs))
			for i, j := range jobs {
				leases[i] = j.Lease()
			}
			b.ResetTimer()
			for range b.N {
				if e, err := s.Extend(b.Context(), leases, time.Hour); err != nil || len(e.Lost) > 0 {
					b.Fatal(err, e)
				}
			}
			perSecond(b, int64(b.N*n), "leases")
		})
	}
}

// BenchmarkClaimDepth claims and releases one job beside many others.
func BenchmarkClaimDepth(b *testing.B) {
	cases := []struct {
		name  string
		setup func(b *testing.B, s *sqlite.Store)
	}{
		{"waiting=1k", func(b *testing.B, s *sqlite.Store) { fill(b, s, 1_000, nil) }},
		{"waiting=1M", func(b *testing.B, s *sqlite.Store) { fill(b, s, 1_000_000, nil) }},
		{"future=1M", func(b *testing.B, s *sqlite.Store) {
			first := 0
			fill(b, s, 1_000_000, func(_ int, j *dibs.NewJob) { j.Priority, j.Delay = &first, time.Hour })
			fill(b, s, 1_000, nil)
		}},
		{"blocked=1M", func(b *testing.B, s *sqlite.Store) {
			first := 0
			fill(b, s, 1_000_000, func(_ int, j *dibs.NewJob) { j.Priority, j.Group = &first, "one" })
			fill(b, s, 1_000, nil)
		}},
		{"running=20k", func(b *testing.B, s *sqlite.Store) {
			fill(b, s, 21_000, nil)
			for range 2 {
				if _, err := s.Claim(b.Context(), dibs.ClaimRequest{Worker: "other", N: 10_000, Lease: time.Hour}); err != nil {
					b.Fatal(err)
				}
			}
		}},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			s := openStore(b, sqlite.Options{})
			c.setup(b, s)
			b.ResetTimer()
			for range b.N {
				jobs, err := s.Claim(b.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
				if err != nil || len(jobs) != 1 {
					b.Fatal(err, len(jobs))
				}
				if err := s.Finish(b.Context(), []dibs.Outcome{jobs[0].Lease().Release()}); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			began := time.Now()
			if _, err := s.Stats(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "stats-ms")
		})
	}
}

// BenchmarkPush enqueues jobs that move the run_at of the jobs with their keys; one op is 100 jobs.
func BenchmarkPush(b *testing.B) {
	s := openStore(b, sqlite.Options{})
	jobs := newJobs(100)
	for i := range jobs {
		jobs[i].UniqueKey, jobs[i].IfHeld, jobs[i].Delay, jobs[i].DelayLimit = fmt.Sprint(i), dibs.HeldPush, time.Hour, 24*time.Hour
	}
	b.ResetTimer()
	for range b.N {
		if _, err := s.Enqueue(b.Context(), jobs); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, int64(b.N*len(jobs)), "jobs")
}

// BenchmarkRead makes calls that only read, beside 10,000 live jobs and 10,000 dead ones in ten queues.
func BenchmarkRead(b *testing.B) {
	s := openStore(b, sqlite.Options{})
	queues := []string{"q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9"}
	queue := func(i int, j *dibs.NewJob) { j.Queue = queues[i%10] }
	fill(b, s, 10_000, queue)
	for _, name := range queues {
		jobs, err := s.Claim(b.Context(), dibs.ClaimRequest{Queue: name, Worker: "w", N: 1_000})
		if err != nil {
			b.Fatal(err)
		}
		outcomes := make([]dibs.Outcome, len(jobs))
		for i, j := range jobs {
			outcomes[i] = j.Lease().Die("no more")
		}
		if err := s.Finish(b.Context(), outcomes); err != nil {
			b.Fatal(err)
		}
	}
	fill(b, s, 10_000, queue)
	ctx := b.Context()
	list := func(f admin.Filter) error {
		page, err := s.List(ctx, f)
		if err == nil && len(page.Jobs) != f.Limit {
			err = fmt.Errorf("%d jobs of %d", len(page.Jobs), f.Limit)
		}
		return err
	}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"get", func() error { _, err := s.Get(ctx, 15_000); return err }},
		{"list=100-live", func() error { return list(admin.Filter{Limit: 100}) }},
		{"list=1000-live", func() error { return list(admin.Filter{Limit: 1_000}) }},
		{"list=100-dead", func() error { return list(admin.Filter{State: dibs.Dead, Limit: 100}) }},
		{"stats", func() error { _, err := s.Stats(ctx); return err }},
		{"failures", func() error { _, err := s.Failures(ctx, admin.FailureFilter{Queues: queues, Limit: 100}); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
