package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// several makes a worker of several queues. The log has the queue of each job that was started.
func several(m dibs.Store, f func(context.Context, *dibs.RawJob) error, queues ...dibs.WorkQueue) (*dibs.Worker, *startLog) {
	log := &startLog{}
	w := quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
		log.add(job.Queue)
		return f(ctx, job)
	})
	w.Queues = queues
	return w, log
}

type startLog struct {
	mu     sync.Mutex
	queues []string
}

func (l *startLog) add(queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queues = append(l.queues, queue)
}

// first counts the first n starts by queue.
func (l *startLog) first(n int) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, q := range l.queues[:min(n, len(l.queues))] {
		counts[q]++
	}
	return counts
}

func (l *startLog) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.queues)
}

func in(queue string, n int) []dibs.NewJob {
	return slices.Repeat([]dibs.NewJob{{Queue: queue, Kind: "plain"}}, n)
}

func named(names ...string) (queues []dibs.WorkQueue) {
	for _, name := range names {
		queues = append(queues, dibs.WorkQueue{Name: name})
	}
	return queues
}

func short(context.Context, *dibs.RawJob) error { time.Sleep(50 * time.Millisecond); return nil }

func TestWithoutWeightsTheOrderOfTheQueuesIsStrict(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w, log := several(m, short, named("high", "middle", "low")...)
		w.Concurrency = 2
		enqueue(t, m, in("low", 20)...)
		enqueue(t, m, in("middle", 10)...)
		stop := run(t, w)
		time.Sleep(110 * time.Millisecond) // three rounds of two
		enqueue(t, m, in("high", 4)...)
		time.Sleep(5 * time.Second)
		stopped(t, stop)
		want := slices.Concat(slices.Repeat([]string{"middle"}, 6), slices.Repeat([]string{"high"}, 4), slices.Repeat([]string{"middle"}, 4), slices.Repeat([]string{"low"}, 20))
		if got := log.list(); !slices.Equal(got, want) {
			t.Errorf("started in the order %q", got)
		}
	})
}

func TestWeightsShareTheStartsUnderLoad(t *testing.T) {
	needs.Race(t)
	queues := []dibs.WorkQueue{{Name: "a", Weight: 5}, {Name: "b", Weight: 3}, {Name: "c"}, {Name: "empty", Weight: 100}}
	for _, places := range []int{1, 2, 10, 100} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				w, log := several(m, short, queues...)
				w.Concurrency = places
				const n = 900
				for _, q := range []string{"a", "b", "c"} {
					enqueue(t, m, in(q, n)...)
				}
				stop := run(t, w)
				for len(log.list()) < n {
					time.Sleep(10 * time.Millisecond)
				}
				got := log.first(n)
				for q, want := range map[string]int{"a": n * 5 / 9, "b": n * 3 / 9, "c": n * 1 / 9} {
					if off := got[q] - want; off < -places-2 || off > places+2 {
						t.Errorf("%d of the first %d jobs are of %s, want %d", got[q], n, q, want)
					}
				}
				stopped(t, stop)
			})
		})
	}
}

// A queue that had no jobs gets its share from when it has some, and no more; and while it has
// none, the others get its share.
func TestAQueueDoesNotSaveUpItsShare(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w, log := several(m, short, dibs.WorkQueue{Name: "busy", Weight: 1}, dibs.WorkQueue{Name: "late", Weight: 1})
		w.Concurrency = 2
		enqueue(t, m, in("busy", 1000)...)
		stop := run(t, w)
		time.Sleep(5*time.Second + time.Millisecond)
		if got := log.first(1000)["busy"]; got < 195 {
			t.Errorf("alone, it started %d jobs in 5 s", got)
		}
		before := len(log.list())
		enqueue(t, m, in("late", 1000)...)
		time.Sleep(5 * time.Second)
		after := log.list()[before:]
		busy := 0
		for _, q := range after {
			if q == "busy" {
				busy++
			}
		}
		if share := float64(busy) / float64(len(after)); share < 0.45 || share > 0.55 {
			t.Errorf("%d of %d jobs are of the queue that was busy before", busy, len(after))
		}
		stopped(t, stop)
	})
}

// While quick jobs of one queue are claimed ahead, the others get what is theirs.
func TestJobsAheadLeaveOtherQueuesTheirTurn(t *testing.T) {
	needs.Race(t)
	for _, weighted := range []bool{false, true} {
		t.Run(fmt.Sprint(weighted), func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				late := make(chan time.Duration, 100)
				w, _ := several(m, func(_ context.Context, job *dibs.RawJob) error {
					if job.Queue == "high" {
						late <- time.Since(job.CreatedAt)
					}
					time.Sleep(time.Millisecond)
					return nil
				}, named("high", "low")...)
				if weighted {
					w.Queues[0].Weight = 2
				}
				w.Queues[0].Max = 3
				w.Concurrency = 10
				enqueue(t, m, in("low", 50_000)...)
				stop := run(t, w)
				for range 20 {
					time.Sleep(100 * time.Millisecond)
					enqueue(t, m, in("high", 1)...)
					if d := <-late; d > 50*time.Millisecond {
						t.Errorf("a job of the first queue started after %v", d)
					}
				}
				if m.count("claim") > 2000 {
					t.Errorf("%d claims", m.count("claim"))
				}
				stopped(t, stop)
			})
		})
	}
}

func TestAQueueNeverHasMoreThanItsMax(t *testing.T) {
	needs.Race(t)
	for _, pause := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} { // quick jobs are claimed ahead
		t.Run(fmt.Sprint(pause), func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				var mu sync.Mutex
				running, most := map[string]int{}, map[string]int{}
				w, _ := several(m, func(_ context.Context, job *dibs.RawJob) error {
					mu.Lock()
					running[job.Queue]++
					most[job.Queue] = max(most[job.Queue], running[job.Queue])
					most["all"] = max(most["all"], running["reports"]+running["mail"])
					mu.Unlock()
					time.Sleep(pause)
					mu.Lock()
					running[job.Queue]--
					mu.Unlock()
					return nil
				}, dibs.WorkQueue{Name: "reports", Max: 2}, dibs.WorkQueue{Name: "mail"})
				enqueue(t, m, in("reports", 300)...)
				enqueue(t, m, in("mail", 300)...)
				stop := run(t, w)
				for _, id := range []int64{300, 600} {
					for m.job(id).State != dibs.Completed {
						time.Sleep(10 * time.Millisecond)
					}
				}
				stopped(t, stop)
				if most["reports"] > 2 || pause > time.Millisecond && (most["reports"] != 2 || most["mail"] < 8 || most["all"] != 10) {
					t.Errorf("at most %v ran at once", most)
				}
			})
		})
	}
}

// One queue or twenty, an idle worker makes less than one call a second.
func TestAnIdleWorkerOfManyQueuesMakesFewCalls(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w, _ := several(m, untilEnd, manyQueues...)
		stop := run(t, w)
		time.Sleep(10 * time.Second)
		before := m.total()
		time.Sleep(100 * time.Second)
		if n := m.total() - before; n >= 100 {
			t.Errorf("%d calls in 100 s", n)
		}
		if n := m.count("claim"); n > 0 {
			t.Errorf("%d claims from empty queues", n)
		}
		stopped(t, stop)
	})
}

var manyQueues = named(strings.Fields("a b c d e f g h i j k l m n o p q r s t")...)

// Without any wakeup, and while another queue keeps the worker busy, every job starts within 2 s
// of its time.
func TestDueJobsOfAnyQueueStartWithinTwoSecondsByPollingAlone(t *testing.T) {
	needs.Race(t)
	for _, busy := range []int{0, 20_000} {
		t.Run(fmt.Sprint(busy), func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				m.quiet = true
				late := make(chan time.Duration, 50)
				w, _ := several(m, func(_ context.Context, job *dibs.RawJob) error {
					if job.Queue == "t" {
						time.Sleep(100 * time.Millisecond)
						return nil
					}
					late <- time.Since(job.RunAt)
					return nil
				}, manyQueues...)
				enqueue(t, m, in("t", busy)...)
				stop := run(t, w)
				enqueueNowAndThen(t, m, func(i int) string { return manyQueues[i%19].Name })
				stopped(t, stop)
				startedInTime(t, late)
			})
		})
	}
}

func TestAJobOfAnyQueueStartsAtOnceWhenTheStoreWakesTheWorker(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var started time.Time
		w, _ := several(m, func(context.Context, *dibs.RawJob) error { started = time.Now(); return nil }, manyQueues...)
		stop := run(t, w)
		for _, q := range manyQueues {
			time.Sleep(time.Minute)
			before, enqueued := m.count("due"), time.Now()
			enqueue(t, m, in(q.Name, 1)...)
			synctest.Wait()
			if started != enqueued {
				t.Errorf("a job of queue %s started %v after it was enqueued", q.Name, started.Sub(enqueued))
			}
			if m.count("due") != before {
				t.Error("the worker asked which queue it was")
			}
		}
		stopped(t, stop)
	})
}

// The leases of all queues are extended in one call, and their outcomes written in one.
func TestQueuesShareExtendsAndFinishes(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		end := make(chan struct{})
		w, _ := several(m, func(context.Context, *dibs.RawJob) error { <-end; return nil }, manyQueues...)
		w.Concurrency = 40
		for _, q := range manyQueues {
			enqueue(t, m, in(q.Name, 2)...)
		}
		stop := run(t, w)
		time.Sleep(time.Minute)
		if n := m.count("extend"); n > 20 {
			t.Errorf("%d extends in a minute", n)
		}
		close(end)
		time.Sleep(time.Second)
		if n := m.count("finish"); n != 1 {
			t.Errorf("%d finishes", n)
		}
		stopped(t, stop)
	})
}

// failing fails claims from one queue.
type failing struct {
	*memory
	queue string
}

func (f failing) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if r.Queue == f.queue {
		return nil, errAway
	}
	return f.memory.Claim(ctx, r)
}

func TestAQueueThatCannotBeClaimedDoesNotStopTheOthers(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w, log := several(failing{m, "bad"}, func(context.Context, *dibs.RawJob) error { return nil }, named("bad", "good")...)
		enqueue(t, m, in("bad", 1)...)
		enqueue(t, m, in("good", 100)...)
		stop := run(t, w)
		time.Sleep(30 * time.Second)
		if n := log.first(1000)["good"]; n != 100 {
			t.Errorf("%d jobs of the good queue ran", n)
		}
		stopped(t, stop)
	})
}

func TestARestartedWorkerTakesBackTheJobsOfAllItsQueues(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var running, most atomic.Int32
		w, log := several(m, func(_ context.Context, job *dibs.RawJob) error {
			if job.Queue == "a" {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
			}
			time.Sleep(time.Millisecond)
			return nil
		}, dibs.WorkQueue{Name: "a", Max: 1}, dibs.WorkQueue{Name: "b"})
		w.Resume = true
		enqueue(t, m, in("a", 2)...)
		enqueue(t, m, in("b", 2)...)
		for _, q := range []string{"a", "b"} {
			if _, err := m.Claim(t.Context(), dibs.ClaimRequest{Queue: q, Worker: w.Name, N: 10}); err != nil {
				t.Fatal(err)
			}
		}
		stop := run(t, w)
		time.Sleep(time.Second) // long before their leases end
		if got := log.first(10); got["a"] != 2 || got["b"] != 2 {
			t.Errorf("started %v", got)
		}
		if n := m.count("resume"); n != 2 {
			t.Errorf("%d calls of Resume", n)
		}
		if most.Load() != 1 {
			t.Errorf("%d jobs of the queue with Max 1 ran at once", most.Load())
		}
		stopped(t, stop)
	})
}

// An error of a call is reported under the name of that call.
func TestErrorsNameTheCallThatFailed(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.setScript(func(_ context.Context, call string) error {
			if call == "due" || call == "resume" && m.count("resume") == 1 {
				return errAway
			}
			return nil
		})
		w, _ := several(m, untilEnd, named("a", "b")...)
		w.Resume = true
		watch := new(watch).on(w)
		stop := run(t, w)
		time.Sleep(time.Minute)
		stopped(t, stop)
		if e := watch.saw().errors; e["due"] == 0 || e["resume"] != 1 || e["claim"] != 0 {
			t.Errorf("errors of %v", e)
		}
	})
}

func TestQueuesThatCannotBeServedAreRefused(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for field, queues := range map[string][]dibs.WorkQueue{
		"worker.queues":           slices.Repeat(named("q"), 101),
		"worker.queues[1].name":   named("q", ""),
		"worker.queues[2].name":   named("q", "r", "q"),
		"worker.queues[0].weight": {{Name: "q", Weight: 1001}},
		"worker.queues[1].weight": {{Name: "q"}, {Name: "r", Weight: -1}},
		"worker.queues[1].max":    {{Name: "q"}, {Name: "r", Max: -1}},
	} {
		w, _ := several(newMemory(), untilEnd, queues...)
		var invalid *dibs.InvalidError
		if err := w.Run(t.Context()); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: Run returned %v", field, err)
		}
	}
	w, _ := several(newMemory(), untilEnd, named("q")...)
	w.Queue = "r"
	if err := w.Run(t.Context()); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("with both Queue and Queues, Run returned %v", err)
	}
}
