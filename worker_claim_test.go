package dibs_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

func TestJobStartsAtOnceWhenTheStoreWakesTheWorker(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var started time.Time
		stop := run(t, quiet(m, func(context.Context, *dibs.RawJob) error { started = time.Now(); return nil }))
		time.Sleep(time.Minute) // long idle
		enqueued := time.Now()
		enqueue(t, m, plain(1)...)
		synctest.Wait()
		if started != enqueued {
			t.Errorf("started %v after it was enqueued", started.Sub(enqueued))
		}
		stopped(t, stop)
	})
}

// Without any wakeup every job starts within 2 s of its time.
func TestDueJobsStartWithinTwoSecondsByPollingAlone(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.quiet = true
		late := make(chan time.Duration, 50)
		stop := run(t, quiet(m, func(_ context.Context, job *dibs.RawJob) error {
			late <- time.Since(job.RunAt)
			return nil
		}))
		enqueueNowAndThen(t, m, func(int) string { return "" })
		stopped(t, stop)
		startedInTime(t, late)
	})
}

// enqueueNowAndThen enqueues 50 jobs into queues, some of them due later, and waits.
func enqueueNowAndThen(t *testing.T, m *memory, queue func(i int) string) {
	t.Helper()
	for i := range 50 {
		time.Sleep(time.Duration(i%7) * 770 * time.Millisecond)
		enqueue(t, m, dibs.NewJob{Queue: queue(i), Kind: "plain", Delay: time.Duration(i%5) * 1234 * time.Millisecond})
	}
	time.Sleep(10 * time.Second)
}

// startedInTime expects that those 50 jobs have started, none 2 s late.
func startedInTime(t *testing.T, late chan time.Duration) {
	t.Helper()
	if len(late) != 50 {
		t.Fatalf("%d jobs ran", len(late))
	}
	for range 50 {
		if d := <-late; d >= 2*time.Second {
			t.Errorf("a job started %v late", d)
		}
	}
}

// An idle worker claims every 1.7 s, give or take a twentieth, and after each sweep, every 10 s;
// as often it reports to the register of workers.
func TestIdleWorkerMakesFewCalls(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		stop := run(t, quiet(m, untilEnd))
		time.Sleep(10 * time.Second)
		claims, sweeps, reports, all := m.count("claim"), m.count("sweep"), m.count("register"), m.total()
		time.Sleep(100 * time.Second)
		claims, sweeps, reports, all = m.count("claim")-claims, m.count("sweep")-sweeps, m.count("register")-reports, m.total()-all
		if claims > 75 || sweeps > 11 || reports < 9 || reports > 10 || all >= 100 {
			t.Errorf("%d claims, %d sweeps and %d reports to the register in 100 s, %d calls in all", claims, sweeps, reports, all)
		}
		stopped(t, stop)
	})
}

func TestAbandonedJobStartsWithinTwoSecondsOfItsLeasesEnd(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.quiet = true
		enqueue(t, m, plain(1)...)
		if _, err := m.Claim(t.Context(), dibs.ClaimRequest{Worker: "gone", N: 1}); err != nil {
			t.Fatal(err)
		}
		end := m.job(1).LeaseUntil
		started := make(chan time.Time, 1)
		stop := run(t, quiet(m, func(context.Context, *dibs.RawJob) error { started <- time.Now(); return nil }))
		if late := (<-started).Sub(end); late < 0 || late >= 2*time.Second {
			t.Errorf("it started %v after its lease ended", late)
		}
		stopped(t, stop)
	})
}

// Places that become free one by one under load are filled by claims of several jobs.
func TestBusyWorkerClaimsInBatches(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var running, most, started atomic.Int32
		w := quiet(m, func(context.Context, *dibs.RawJob) error {
			n := running.Add(1)
			defer running.Add(-1)
			most.Store(max(most.Load(), n))
			if i := started.Add(1); i <= 100 { // spread them evenly
				time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		w.Concurrency = 100
		enqueue(t, m, plain(5000)...)
		start := time.Now()
		stop := run(t, w)
		for m.job(5000).State != dibs.Completed {
			time.Sleep(time.Millisecond)
		}
		took := time.Since(start)
		stopped(t, stop)
		if most.Load() > 100 {
			t.Errorf("%d handlers ran at once", most.Load())
		}
		if n := m.count("claim"); n > 5000/25+20 {
			t.Errorf("%d claims for 5000 jobs", n)
		}
		// 100 places of 10 ms each give 10,000 jobs a second; waiting for a quarter costs some.
		if took > 800*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// One free place of many is filled at once when the worker is not claiming all the time.
func TestFewFreePlacesDoNotDelayAJob(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		started := make(chan time.Time, 1)
		w := quiet(m, untilEnd)
		w.Concurrency = 20
		w.HandleRaw("quick", func(context.Context, *dibs.RawJob) error { started <- time.Now(); return nil })
		stop := run(t, w)
		enqueue(t, m, plain(19)...)
		time.Sleep(time.Second)
		enqueued := time.Now()
		enqueue(t, m, dibs.NewJob{Kind: "quick"})
		if wait := (<-started).Sub(enqueued); wait != 0 {
			t.Errorf("started after %v", wait)
		}
		stopped(t, stop)
	})
}

func TestOutcomeWaitsAtMostAFewMillisecondsForOthers(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var wrote sync.Map
		w := quiet(m, untilEnd)
		w.Concurrency = 20
		w.HandleRaw("quick", func(context.Context, *dibs.RawJob) error { return nil })
		w.Hooks.Finished = func(a dibs.Attempt) { wrote.Store(a.Job.ID, time.Now()) }
		stop := run(t, w)
		quick := func() time.Duration {
			time.Sleep(time.Second)
			start := time.Now()
			id := enqueue(t, m, dibs.NewJob{Kind: "quick"})[0]
			time.Sleep(time.Second)
			at, _ := wrote.Load(id)
			return at.(time.Time).Sub(start)
		}
		if d := quick(); d != 0 {
			t.Errorf("alone, the outcome waited %v", d)
		}
		enqueue(t, m, plain(1)...)
		if d := quick(); d > 5*time.Millisecond {
			t.Errorf("beside another job, the outcome waited %v", d)
		}
		stopped(t, stop)
	})
}

func TestRunOutlivesADatabaseThatIsAway(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.setScript(func(context.Context, string) error { return errAway })
		w := quiet(m, func(context.Context, *dibs.RawJob) error { return nil })
		watch := new(watch).on(w)
		stop := run(t, w)
		time.Sleep(time.Hour)
		m.setScript(nil)
		back := time.Now()
		enqueue(t, m, plain(1)...)
		for m.job(1).State != dibs.Completed {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(back); took > 3*time.Second {
			t.Errorf("it took %v to notice that the database was back", took)
		}
		stopped(t, stop)
		if n := watch.saw().errors["claim"]; n < 1000 || n > 2500 {
			t.Errorf("%d claims in an hour without a database", n)
		}
	})
}

// A database that takes claims but no outcomes must not fill the memory.
func TestUnwrittenOutcomesHoldUpClaims(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.setScript(func(_ context.Context, call string) error {
			if call == "finish" {
				return errAway
			}
			return nil
		})
		w := quiet(m, func(context.Context, *dibs.RawJob) error { return nil })
		enqueue(t, m, plain(1000)...)
		stop := run(t, w)
		time.Sleep(time.Minute)
		claimed := 0
		for id := range int64(1000) {
			claimed += m.job(id + 1).Attempt
		}
		if claimed != 20 {
			t.Errorf("%d jobs were claimed for 10 places", claimed)
		}
		m.setScript(nil)
		time.Sleep(time.Minute)
		stopped(t, stop)
		for id := range int64(1000) {
			if job := m.job(id + 1); job.State != dibs.Completed {
				t.Fatalf("job %d is %s", job.ID, job.State)
			}
		}
	})
}

// In a queue with a limit, the next job starts when one ends: the store sends a wakeup, and
// one claim follows.
func TestOneClaimFollowsAFinishThatMakesRoom(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.maxRunning = 1
		enqueue(t, m, plain(100)...)
		start := time.Now()
		stop := run(t, quiet(m, func(context.Context, *dibs.RawJob) error { return nil }))
		synctest.Wait()
		if job := m.job(100); job.State != dibs.Completed || time.Since(start) != 0 {
			t.Errorf("after %v the last job is %s", time.Since(start), job.State)
		}
		if n := m.count("claim"); n > 105 {
			t.Errorf("%d claims", n)
		}
		stopped(t, stop)
	})
}

// A Finish that took effect without an answer is repeated: that is refused, and sends no wakeup.
func TestAClaimFollowsAFinishThatWasNotAnswered(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.maxRunning, m.quiet = 1, true
		enqueue(t, m, plain(2)...)
		m.setScript(func(_ context.Context, call string) error {
			if call != "finish" || m.count("finish") > 1 {
				return nil
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.end(m.jobs[1], dibs.Outcome{ID: 1, Ending: dibs.EndCompleted})
			return dibs.ErrUnavailable
		})
		stop := run(t, quiet(m, func(_ context.Context, j *dibs.RawJob) error {
			if j.ID == 1 {
				time.Sleep(9 * time.Second) // meanwhile the waits between polls grow
			}
			return nil
		}))
		time.Sleep(9*time.Second + 100*time.Millisecond)
		if job := m.job(2); job.State != dibs.Completed {
			t.Errorf("0.1 s later the next job is %s", job.State)
		}
		stopped(t, stop)
	})
}

func TestNoClaimFollowsAFinishThatMakesNoRoom(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		stop := run(t, quiet(m, func(context.Context, *dibs.RawJob) error { return nil }))
		synctest.Wait()
		before := m.count("claim")
		enqueue(t, m, plain(1)...)
		synctest.Wait()
		if n := m.count("claim") - before; n != 1 || m.count("finish") != 1 {
			t.Errorf("%d claims and %d finishes for a job", n, m.count("finish"))
		}
		stopped(t, stop)
	})
}

// With jobs that take no time, full claims and writes overlap, so the slower of the
// two sets the pace.
func TestShortJobsRunAtThePaceOfTheDatabase(t *testing.T) {
	needs.Race(t)
	for _, c := range []struct {
		concurrency   int
		claim, finish time.Duration
	}{
		{1, 3 * time.Millisecond, 3 * time.Millisecond},
		{4, 3 * time.Millisecond, 3 * time.Millisecond},
		{10, 3 * time.Millisecond, 3 * time.Millisecond},
		{10, time.Millisecond, 5 * time.Millisecond},
		{10, 5 * time.Millisecond, time.Millisecond},
		{100, 5 * time.Millisecond, time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d places, claim %v, finish %v", c.concurrency, c.claim, c.finish), func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				m.setScript(func(_ context.Context, call string) error {
					switch call {
					case "claim":
						time.Sleep(c.claim)
					case "finish":
						time.Sleep(c.finish)
					}
					return nil
				})
				jobs := 100 * c.concurrency
				enqueue(t, m, plain(jobs)...)
				w := quiet(m, func(context.Context, *dibs.RawJob) error { return nil })
				w.Concurrency = c.concurrency
				all := make(chan struct{})
				var finished atomic.Int64
				w.Hooks.Finished = func(dibs.Attempt) {
					if finished.Add(1) == int64(jobs) {
						close(all)
					}
				}
				start := time.Now()
				stop := run(t, w)
				<-all
				took := time.Since(start)
				stopped(t, stop)
				if best := 100 * max(c.claim, c.finish); took > best*11/10 {
					t.Errorf("%d jobs took %v, %v is possible", jobs, took, best)
				}
			})
		})
	}
}
