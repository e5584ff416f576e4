package dibstest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/dibstest"
	"github.com/dibs-queue/dibs/internal/needs"
)

type letter struct {
	To string `json:"to"`
	N  int    `json:"n"`
}

// spy is a test that notes how it failed instead of failing.
type spy struct {
	testing.TB
	said string
}

func (s *spy) Helper() {}

func (s *spy) Errorf(format string, args ...any) { s.said += fmt.Sprintf(format, args...) }

func (s *spy) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *spy) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }

// failure is what f says when it fails the test.
func failure(t *testing.T, f func(t testing.TB)) string {
	t.Helper()
	s := &spy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(s)
	}()
	<-done
	return s.said
}

func TestRequireEnqueued(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	store := dibstest.Store(t)
	if _, err := store.Enqueue(t.Context(), []dibs.NewJob{
		{Queue: "mail", Kind: "welcome", Payload: []byte(`{"n": 1,  "to":"ann"}`), Group: "g", UniqueKey: "u"},
		{Queue: "mail", Kind: "welcome", Payload: letter{"bob", 2}},
		{Kind: "other"},
	}); err != nil {
		t.Fatal(err)
	}
	j := dibstest.RequireEnqueued(t, store, dibstest.Want{Queue: "mail", Kind: "welcome", Payload: letter{"ann", 1}, Group: "g", UniqueKey: "u", State: dibs.Waiting})
	if j.Queue != "mail" || j.Group != "g" {
		t.Errorf("found %+v", j)
	}
	dibstest.RequireEnqueued(t, store, dibstest.Want{Kind: "other"})
	dibstest.NotEnqueued(t, store, dibstest.Want{Queue: "mail", Payload: letter{"ann", 2}})
	for _, test := range []struct {
		f    func(t testing.TB)
		want []string
	}{
		{func(t testing.TB) { dibstest.RequireEnqueued(t, store, dibstest.Want{Queue: "mail"}) }, []string{"2 jobs are as wanted, not one: a job, queue mail"}},
		{
			func(t testing.TB) {
				dibstest.RequireEnqueued(t, store, dibstest.Want{Queue: "mail", Payload: letter{"eve", 1}})
			},
			[]string{`0 jobs are as wanted, not one: a job, queue mail, payload {"to":"eve","n":1}`, "job 1, waiting, queue mail, kind welcome", "job 2, waiting"},
		},
		{func(t testing.TB) { dibstest.NotEnqueued(t, store, dibstest.Want{Kind: "other"}) }, []string{"there should be no such job: a job, kind other", "job 3"}},
		{func(t testing.TB) { dibstest.RequireEnqueued(t, store, dibstest.Want{Queue: "none"}) }, []string{"there is none"}},
	} {
		got := failure(t, test.f)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("it says %q, not %q", got, want)
			}
		}
	}
}

var errNoMailbox = errors.New("no mailbox")

func worker(store dibs.Store) *dibs.Worker {
	w := &dibs.Worker{Store: store, Queue: "mail"}
	dibs.Handle(w, "welcome", func(ctx context.Context, job *dibs.Job[letter]) error {
		if job.Payload.To == "" {
			return dibs.Die(errNoMailbox)
		}
		return job.SetResult("sent to " + job.Payload.To)
	})
	return w
}

func TestWork(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	store := dibstest.Store(t)
	w := worker(store)
	if a := dibstest.Work(t, w, dibs.NewJob{Kind: "welcome", Payload: letter{To: "ann"}}); a.Outcome.Ending != dibs.EndCompleted || string(a.Outcome.Result) != `"sent to ann"` {
		t.Errorf("the attempt is %+v", a)
	}
	if a := dibstest.Work(t, w, dibs.NewJob{Kind: "welcome", Payload: letter{}}); a.Outcome.Ending != dibs.EndDead || !errors.Is(a.Err, errNoMailbox) {
		t.Errorf("the attempt is %+v", a)
	}
	dibstest.RequireEnqueued(t, store, dibstest.Want{Queue: "mail", State: dibs.Dead})
}

func TestAWorkerOfSeveralQueues(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	store := dibstest.Store(t)
	w := worker(store)
	w.Queue, w.Queues = "", []dibs.WorkQueue{{Name: "mail"}, {Name: "bulk", Max: 1}}
	for _, queue := range []string{"", "bulk"} {
		if a := dibstest.Work(t, w, dibs.NewJob{Queue: queue, Kind: "welcome", Payload: letter{To: "ann"}}); a.Outcome.Ending != dibs.EndCompleted {
			t.Errorf("the attempt is %+v", a)
		}
	}
	jobs := make([]dibs.NewJob, 20)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: []string{"mail", "bulk"}[i%2], Kind: "welcome", Payload: letter{To: "ann"}}
	}
	if _, err := store.Enqueue(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if got := dibstest.Drain(t, w); len(got) != len(jobs) {
		t.Errorf("%d attempts, want %d", len(got), len(jobs))
	}
}

func TestDrainAndAdvance(t *testing.T) {
	t.Parallel()
	store := dibstest.Store(t)
	w := worker(store)
	called := 0
	w.Hooks.Finished = func(dibs.Attempt) { called++ }
	if got := dibstest.Drain(t, w); len(got) != 0 {
		t.Errorf("of an empty queue came %d attempts", len(got))
	}
	jobs := make([]dibs.NewJob, 25)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "mail", Kind: "welcome", Payload: letter{To: "ann"}, Group: fmt.Sprint(i % 3)}
	}
	jobs = append(jobs, dibs.NewJob{Queue: "mail", Kind: "welcome", Payload: letter{To: "later"}, Delay: 24 * time.Hour})
	if _, err := store.Enqueue(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if got := dibstest.Drain(t, w); len(got) != 25 || called != 25 {
		t.Errorf("%d attempts, %d calls of the hook, want 25", len(got), called)
	}
	dibstest.Advance(t, store, 23*time.Hour)
	if got := dibstest.Drain(t, w); len(got) != 0 {
		t.Errorf("an hour too early came %d attempts", len(got))
	}
	dibstest.Advance(t, store, time.Hour)
	if got := dibstest.Drain(t, w); len(got) != 1 || string(got[0].Outcome.Result) != `"sent to later"` {
		t.Errorf("a day later came %v", got)
	}
}

func TestAdvanceTicksSchedules(t *testing.T) {
	t.Parallel()
	store := dibstest.Store(t)
	if _, err := store.SetSchedule(t.Context(), dibs.Schedule{Name: "daily", Spec: "@daily", Queue: "mail", Kind: "welcome", Payload: letter{To: "all"}, Missed: dibs.MissedAll}); err != nil {
		t.Fatal(err)
	}
	dibstest.Advance(t, store, 3*24*time.Hour)
	if got := dibstest.Drain(t, worker(store)); len(got) != 3 {
		t.Errorf("in three days came %d jobs", len(got))
	}
	for range 3 {
		dibstest.Advance(t, store, 24*time.Hour)
		if got := dibstest.Drain(t, worker(store)); len(got) != 1 || got[0].Outcome.Ending != dibs.EndCompleted {
			t.Errorf("the day after came %+v", got)
		}
	}
}

// TestAJobThatTheWorkerDoesNotTakeInTime is not parallel, as it changes the patience of all.
func TestAJobThatTheWorkerDoesNotTakeInTime(t *testing.T) {
	needs.Race(t)
	defer dibstest.SetPatience(100 * time.Millisecond)()
	w := worker(dibstest.Store(t))
	if got := failure(t, func(t testing.TB) { dibstest.Work(t, w, dibs.NewJob{Kind: "welcome", Delay: time.Hour}) }); !strings.HasPrefix(got, "after 100ms the worker has not run all jobs") || !strings.Contains(got, "job 1, waiting, queue mail, kind welcome") {
		t.Errorf("it says %q", got)
	}
}

func TestAJobWithoutAHandlerFailsAtOnce(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	store := dibstest.Store(t)
	w := worker(store)
	const want = "the worker has not run all jobs of queue mail; has it a handler for their kinds? there are\n  job 1, waiting, queue mail, kind goodbye, payload null"
	if got := failure(t, func(t testing.TB) { dibstest.Work(t, w, dibs.NewJob{Kind: "goodbye"}) }); got != want {
		t.Errorf("it says %q", got)
	}
	if a := dibstest.Work(t, w, dibs.NewJob{Kind: "welcome", Payload: letter{To: "ann"}}); a.Outcome.Ending != dibs.EndCompleted {
		t.Errorf("beside it, the attempt is %+v", a)
	}
	if _, err := store.Enqueue(t.Context(), []dibs.NewJob{{Queue: "mail", Kind: "welcome", Payload: letter{To: "bob"}}}); err != nil {
		t.Fatal(err)
	}
	if got := failure(t, func(t testing.TB) { dibstest.Drain(t, w) }); got != want { // bob's is done
		t.Errorf("it says %q", got)
	}
	w.HandleRaw("", func(context.Context, *dibs.RawJob) error { return nil })
	if got := dibstest.Drain(t, w); len(got) != 1 || got[0].Job.Kind != "goodbye" {
		t.Errorf("a handler for all kinds has made the attempts %+v", got)
	}
}

func TestAJobOfAnotherQueueIsRefused(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	w := worker(dibstest.Store(t))
	if got := failure(t, func(t testing.TB) { dibstest.Work(t, w, dibs.NewJob{Kind: "welcome", Queue: "other"}) }); got != "the job is of queue other, the worker of queue mail" {
		t.Errorf("it says %q", got)
	}
}

func TestAStoreThatCannotEnqueueIsRefused(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	w := worker(struct{ dibs.Store }{dibstest.Store(t)})
	for _, f := range []func(t testing.TB){
		func(t testing.TB) { dibstest.Work(t, w, dibs.NewJob{Kind: "welcome"}) },
		func(t testing.TB) { dibstest.Drain(t, w) },
	} {
		if got := failure(t, f); !strings.HasPrefix(got, "the worker's store is a struct") {
			t.Errorf("it says %q", got)
		}
	}
	if got := failure(t, func(t testing.TB) { dibstest.Advance(t, dibstest.Store(t), -1) }); !strings.Contains(got, "cannot go back") {
		t.Errorf("it says %q", got)
	}
}

// claimsAfterALook is a store whose worker claims only between a look at the statistics and one at the kinds of due jobs.
type claimsAfterALook struct {
	admin.Database
	looked, lookedAgain, claimed chan struct{}
	looks                        atomic.Int32
	once                         sync.Once
}

func (s *claimsAfterALook) Stats(ctx context.Context) ([]admin.QueueStats, error) {
	all, err := s.Database.Stats(ctx)
	switch s.looks.Add(1) {
	case 1:
		close(s.looked)
	case 2:
		close(s.lookedAgain)
	}
	return all, err
}

func (s *claimsAfterALook) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	<-s.looked
	jobs, err := s.Database.Claim(ctx, r)
	s.once.Do(func() { close(s.claimed) })
	return jobs, err
}

func (s *claimsAfterALook) DueKinds(ctx context.Context, queue string) ([]string, error) {
	<-s.claimed
	return s.Database.DueKinds(ctx, queue)
}

func TestAJobThatStartsWhileTheQueueIsLookedAtHasAHandler(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	store := &claimsAfterALook{Database: dibstest.Store(t), looked: make(chan struct{}), lookedAgain: make(chan struct{}), claimed: make(chan struct{})}
	w := &dibs.Worker{Store: store, Queue: "mail"}
	w.HandleRaw("welcome", func(ctx context.Context, _ *dibs.RawJob) error {
		select {
		case <-store.lookedAgain:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if _, err := store.Enqueue(t.Context(), []dibs.NewJob{{Queue: "mail", Kind: "goodbye"}, {Queue: "mail", Kind: "welcome"}}); err != nil {
		t.Fatal(err)
	}
	const want = "the worker has not run all jobs of queue mail; has it a handler for their kinds? there are\n  job 1, waiting, queue mail, kind goodbye, payload null"
	if got := failure(t, func(t testing.TB) { dibstest.Drain(t, w) }); got != want {
		t.Errorf("it says %q", got)
	}
}
