package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

func openBench(b *testing.B) *postgres.Store {
	s, _ := openBenchURL(b)
	return s
}

func openBenchURL(b *testing.B) (*postgres.Store, string) {
	ctx := context.Background()
	url := pgtest.URL(b)
	if err := postgres.Migrate(ctx, url, postgres.Options{}); err != nil {
		b.Fatal(err)
	}
	s, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s, url
}

func newJobs(n, first, groups int) []dibs.NewJob {
	payload := []byte(`{"to":"someone@example.com","subject":"Welcome","text":"a payload of about one hundred bytes"}`)
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "bench", Kind: "mail", Payload: payload}
		if groups > 0 {
			jobs[i].Group = group((first + i) % groups)
		}
	}
	return jobs
}

func enqueueAll(b *testing.B, s *postgres.Store, n, chunk, groups int) {
	for at := 0; at < n; at += chunk {
		if _, err := s.Enqueue(context.Background(), newJobs(min(chunk, n-at), at, groups)); err != nil {
			b.Fatal(err)
		}
	}
}

// setRates gives the queue a rate that is never reached, or each of its groups one.
func setRates(b *testing.B, s *postgres.Store, groups int) {
	ctx, r := context.Background(), &dibs.Rate{N: 1_000_000, Per: time.Second}
	if groups == 0 {
		if _, err := s.ChangeQueue(ctx, "bench", dibs.QueueChange{Rate: r}.Apply); err != nil {
			b.Fatal(err)
		}
	}
	for i := range groups {
		if err := s.ChangeGroup(ctx, "bench", group(i), dibs.GroupChange{Rate: r}.Apply); err != nil {
			b.Fatal(err)
		}
	}
}

// setGroupRate gives the queue a rate for its groups that is never reached.
func setGroupRate(b *testing.B, s *postgres.Store, _ int) {
	if _, err := s.ChangeQueue(context.Background(), "bench", dibs.QueueChange{GroupRate: &dibs.Rate{N: 1_000_000, Per: time.Second}}.Apply); err != nil {
		b.Fatal(err)
	}
}

func group(i int) string { return fmt.Sprint("g", i) }

// drain claims and completes until n jobs are done, with 4 claimers.
func drain(b *testing.B, s *postgres.Store, n, batch int) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for left.Load() > 0 {
				jobs, err := s.Claim(context.Background(), dibs.ClaimRequest{Queue: "bench", Worker: "w", N: batch})
				if err != nil {
					b.Error(err)
					return
				}
				outcomes := make([]dibs.Outcome, len(jobs))
				for i, j := range jobs {
					outcomes[i] = j.Lease().Complete(nil)
				}
				if err := s.Finish(context.Background(), outcomes); err != nil {
					b.Error(err)
					return
				}
				left.Add(-int64(len(jobs)))
			}
		})
	}
	wg.Wait()
}

func perSecond(b *testing.B, n int) {
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkEnqueue inserts batches of 1,000 over one connection at a time.
func BenchmarkEnqueue(b *testing.B) {
	s := openBench(b)
	jobs := newJobs(1000, 0, 0)
	for b.Loop() {
		if _, err := s.Enqueue(context.Background(), jobs); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, len(jobs))
}

// BenchmarkDrain claims and completes 40,000 jobs, kept for the default time.
func BenchmarkDrain(b *testing.B) {
	for _, bb := range []struct {
		name          string
		batch, groups int
		rates         func(b *testing.B, s *postgres.Store, groups int)
	}{
		{"batch=100", 100, 0, nil},
		{"batch=100,rate", 100, 0, setRates},
		{"batch=10", 10, 0, nil},
		{"batch=10,rate", 10, 0, setRates},
		{"groups=600", 100, 600, nil},
		{"groups=10000", 100, 10_000, nil},
		{"groups=10000,rates", 100, 10_000, setRates},
		{"groups=10000,group-rate", 100, 10_000, setGroupRate},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s := openBench(b)
			if bb.rates != nil {
				bb.rates(b, s, bb.groups)
			}
			const n = 40_000
			for b.Loop() {
				b.StopTimer()
				enqueueAll(b, s, n, 1000, bb.groups)
				b.StartTimer()
				drain(b, s, n, bb.batch)
			}
			perSecond(b, n)
		})
	}
}

// BenchmarkSingle enqueues, claims and completes jobs one by one from one caller.
func BenchmarkSingle(b *testing.B) {
	s := openBench(b)
	for b.Loop() {
		enqueueAll(b, s, 1, 1, 0)
		drain1(b, s)
	}
	perSecond(b, 1)
}

func drain1(b *testing.B, s *postgres.Store) {
	jobs, err := s.Claim(context.Background(), dibs.ClaimRequest{Queue: "bench", Worker: "w", N: 1})
	if err != nil || len(jobs) != 1 {
		b.Fatal(len(jobs), err)
	}
	if err := s.Finish(context.Background(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
		b.Fatal(err)
	}
}

// fill puts n jobs into the queue bench, as many enqueues would.
func fill(b *testing.B, url string, n int, gate int, group *string, ahead string) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	const rows = `insert into dibs.job (queue, kind, payload, priority, run_at, gate, max_attempts, created_at, group_key)
		select 'bench', 'mail', repeat('1', 100), 255, now() + $4::interval, $1, 25, now(), $2 from generate_series(1, $3::int)`
	if _, err := conn.Exec(ctx, rows, gate, group, n, ahead); err != nil {
		b.Fatal(err)
	}
	const count = `insert into dibs.tally (queue, waiting, blocked) values ('bench', case $1::int when 1 then 0 else $2::int end, case $1::int when 1 then $2::int else 0 end)`
	if _, err := conn.Exec(ctx, count, gate, n); err != nil {
		b.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "vacuum analyze dibs.job"); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkDepth shows that neither claims nor statistics get slower with what
// stands in the table: time of one claim of 100 and its finish, and of Stats.
func BenchmarkDepth(b *testing.B) {
	ctx := context.Background()
	const million = 1_000_000
	group := "g"
	for _, bb := range []struct {
		name    string
		prepare func(b *testing.B, s *postgres.Store, url string)
	}{
		{"waiting=10k", func(*testing.B, *postgres.Store, string) {}},
		{"waiting=1M", func(b *testing.B, _ *postgres.Store, url string) { fill(b, url, million, 0, nil, "0") }},
		{"future=1M", func(b *testing.B, _ *postgres.Store, url string) { fill(b, url, million, 0, nil, "1 hour") }},
		{"blocked=1M", func(b *testing.B, _ *postgres.Store, url string) { fill(b, url, million, 1, &group, "0") }},
		{"running=20k", func(b *testing.B, s *postgres.Store, url string) {
			fill(b, url, 20_000, 0, nil, "0")
			for range 2 {
				jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "bench", Worker: "w", N: 10_000, Lease: dibs.MaxLease})
				if err != nil || len(jobs) != 10_000 {
					b.Fatal(len(jobs), err)
				}
			}
		}},
	} {
		s, url := openBenchURL(b)
		enqueueAll(b, s, 1000, 1000, 0)
		bb.prepare(b, s, url)
		enqueueAll(b, s, 9000, 1000, 0)
		b.Run(bb.name+"/claim=100", func(b *testing.B) {
			for b.Loop() {
				jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "bench", Worker: "w", N: 100})
				if err != nil || len(jobs) == 0 {
					b.Fatal(len(jobs), err)
				}
				b.StopTimer()
				back := make([]dibs.Outcome, len(jobs))
				for i, j := range jobs {
					back[i] = j.Lease().Complete(nil)
				}
				if err := s.Finish(ctx, back); err != nil {
					b.Fatal(err)
				}
				enqueueAll(b, s, len(jobs), 100, 0)
				b.StartTimer()
			}
		})
		b.Run(bb.name+"/stats", func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Stats(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkManyQueues enqueues a job to each of 10,000 queues, new ones and old ones, in
// batches of 1,000, and looks at them with a million jobs among them.
func BenchmarkManyQueues(b *testing.B) {
	const queues, batch = 10_000, 1000
	ctx := context.Background()
	fresh := 0
	enqueue := func(b *testing.B, s *postgres.Store, from int) {
		for at := from; at < from+queues; at += batch {
			jobs := newJobs(batch, 0, 0)
			for i := range jobs {
				jobs[i].Queue = fmt.Sprint("q", at+i)
			}
			if _, err := s.Enqueue(ctx, jobs); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("new", func(b *testing.B) {
		s := openBench(b)
		for b.Loop() {
			enqueue(b, s, fresh)
			fresh += queues
		}
	})
	s, url := openBenchURL(b)
	for range 100 {
		enqueue(b, s, 0)
	}
	b.Run("unknown to the process", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			other, err := postgres.Open(ctx, url, postgres.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			enqueue(b, other, 0)
			b.StopTimer()
			other.Close()
			b.StartTimer()
		}
	})
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) { // claim again and again, as workers do
		if _, err := s.Sweep(ctx); err != nil {
			b.Fatal(err)
		}
	}
	for name, look := range map[string]func() (int, error){
		"stats": func() (int, error) {
			all, err := s.Stats(ctx)
			return len(all), err
		},
		"queues": func() (int, error) {
			all, err := s.Queues(ctx)
			return len(all), err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n, err := look(); n != queues || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkManyCallers has 64 goroutines claim single jobs for one worker, or extend one lease each.
func BenchmarkManyCallers(b *testing.B) {
	const callers, each = 64, 100
	together := func(b *testing.B, call func(caller int) error) {
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				for range each {
					if err := call(caller); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	b.Run("claim", func(b *testing.B) {
		s := openBench(b)
		for b.Loop() {
			b.StopTimer()
			enqueueAll(b, s, callers*each, 1000, 0)
			b.StartTimer()
			together(b, func(int) error {
				_, err := s.Claim(context.Background(), dibs.ClaimRequest{Queue: "bench", Worker: "w", N: 1, Lease: time.Hour})
				return err
			})
		}
		perSecond(b, callers*each)
	})
	b.Run("extend", func(b *testing.B) {
		s := openBench(b)
		enqueueAll(b, s, callers, callers, 0)
		jobs, err := s.Claim(context.Background(), dibs.ClaimRequest{Queue: "bench", Worker: "w", N: callers, Lease: time.Hour})
		if err != nil || len(jobs) != callers {
			b.Fatal(len(jobs), err)
		}
		for b.Loop() {
			together(b, func(caller int) error {
				_, err := s.Extend(context.Background(), []dibs.Lease{jobs[caller].Lease()}, time.Hour)
				return err
			})
		}
		perSecond(b, callers*each)
	})
}
