package dibs_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

func TestARegistrationThatCannotWorkPanicsAtOnce(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *dibs.RawJob) error { return nil }
	for name, register := range map[string]func(){
		"HandleRaw without a function":  func() { (&dibs.Worker{}).HandleRaw("k", nil) },
		"Handle without a function":     func() { dibs.Handle[string](&dibs.Worker{}, "k", nil) },
		"HandleRaw without a worker":    func() { (*dibs.Worker)(nil).HandleRaw("k", nothing) },
		"Handle without a worker":       func() { dibs.Handle(nil, "k", func(context.Context, *dibs.Job[string]) error { return nil }) },
		"Handle without a kind":         func() { dibs.Handle(&dibs.Worker{}, "", func(context.Context, *dibs.Job[string]) error { return nil }) },
		"HandleRaw twice with one kind": func() { w := &dibs.Worker{}; w.HandleRaw("k", nothing); w.HandleRaw("k", nothing) },
	} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.HasPrefix(text, "dibs: ") {
					t.Errorf("%s: it panics with %q, want a text that begins with dibs:", name, text)
				}
			}()
			register()
		}()
	}
}

func TestAWorkerThatIsNotSetUpDoesNotRun(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	if kinds := (&dibs.Worker{}).Kinds(); kinds == nil || len(kinds) != 0 {
		t.Errorf("without handlers it takes the kinds %v", kinds)
	}
	nothing := func(context.Context, *dibs.RawJob) error { return nil }
	m := newMemory()
	for _, c := range []struct {
		field  string
		ctx    context.Context
		worker *dibs.Worker
	}{
		{"worker", t.Context(), nil},
		{"worker.store", t.Context(), &dibs.Worker{}},
		{"worker", t.Context(), quiet(m, nil)},
		{"ctx", nil, quiet(m, nothing)},
		{"store", t.Context(), quiet((*sqlite.Store)(nil), nothing)},
		{"store", t.Context(), quiet(&sqlite.Store{}, nothing)},
	} {
		var invalid *dibs.InvalidError
		if err := c.worker.Run(c.ctx); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("got %v, want an InvalidError of %s", err, c.field)
		}
	}
}

// panicking makes every hook panic, and records the log and which hooks were called.
type panicking struct {
	mu     sync.Mutex
	logged []string
	called map[string]bool
}

func (p *panicking) hooks() dibs.Hooks {
	p.called = make(map[string]bool)
	call := func(hook string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.called[hook] = true
		panic("a mistake in " + hook)
	}
	return dibs.Hooks{
		Log:       slog.New(slog.NewTextHandler(p, nil)),
		Claimed:   func([]*dibs.RawJob, time.Duration) { call("Claimed") },
		Started:   func(context.Context, *dibs.RawJob) { call("Started") },
		Finished:  func(dibs.Attempt) { call("Finished") },
		LeaseLost: func(*dibs.RawJob, error) { call("LeaseLost") },
		Error:     func(string, error) { call("Error") },
	}
}

func (p *panicking) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logged = append(p.logged, string(line))
	return len(line), nil
}

func (p *panicking) says(word string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(strings.Join(p.logged, ""), word)
}

func extendFails(m *memory) {
	m.setScript(func(_ context.Context, call string) error {
		if call == "extend" {
			return errAway
		}
		return nil
	})
}

func TestAHookThatPanicsIsLoggedAndTheWorkerGoesOn(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
			if job.ID == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		var p panicking
		w.Hooks = p.hooks()
		stop := run(t, w)
		ids := enqueue(t, m, plain(3)...)
		synctest.Wait()
		extendFails(m)
		time.Sleep(time.Minute)
		m.setScript(nil)
		stopped(t, stop)
		for _, id := range ids[1:] {
			if s := m.job(id).State; s != dibs.Completed {
				t.Errorf("job %d is %s", id, s)
			}
		}
		for _, hook := range []string{"Claimed", "Started", "Finished", "LeaseLost", "Error"} {
			if !p.called[hook] || !p.says("a mistake in "+hook) || !p.says("hook="+hook) {
				t.Errorf("the panic of hook %s was not logged", hook)
			}
		}
	})
}

// A hook may end its goroutine, as testing.T.FailNow does: Run cannot return then, but its
// calls to the store have ended, and so have its handlers' contexts.
func TestAHookThatEndsItsGoroutineLeavesNothingBehind(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		started, stopped := make(chan struct{}), make(chan struct{})
		w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
			defer close(stopped)
			close(started)
			<-ctx.Done()
			return ctx.Err()
		})
		w.Hooks.Error = func(string, error) { runtime.Goexit() }
		enqueue(t, m, plain(1)...)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = w.Run(t.Context())
		}()
		<-started
		var claims atomic.Int64 // claims under way
		m.setScript(func(ctx context.Context, call string) error {
			switch call {
			case "extend":
				return errAway
			case "claim":
				claims.Add(1)
				defer claims.Add(-1)
				<-ctx.Done()
			}
			return ctx.Err()
		})
		<-over
		if n := claims.Load(); n != 0 {
			t.Errorf("%d claims are still under way", n)
		}
		<-stopped
	})
}

// logPanics is a slog.Handler that panics.
type logPanics struct{ slog.Handler }

func (logPanics) Enabled(context.Context, slog.Level) bool    { panic("a mistake") }
func (l logPanics) Handle(context.Context, slog.Record) error { panic("a mistake") }
func (l logPanics) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l logPanics) WithGroup(string) slog.Handler             { return l }

func TestALogThatPanicsStopsNothing(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, func(context.Context, *dibs.RawJob) error { return nil })
		w.Hooks.Log = slog.New(logPanics{})
		stop := run(t, w)
		ids := enqueue(t, m, plain(2)...)
		synctest.Wait()
		stopped(t, stop)
		if s := m.job(ids[1]).State; s != dibs.Completed {
			t.Errorf("the job is %s", s)
		}
	})
}

// unreadable is an error type whose nil pointer makes errors.Is panic, as many do.
type unreadable struct{ inner error }

func (u *unreadable) Error() string { return "unreadable" }
func (u *unreadable) Unwrap() error { return u.inner }

func TestAnErrorThatCannotBeReadFailsItsOwnAttemptAlone(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		stop := run(t, quiet(m, func(_ context.Context, job *dibs.RawJob) error {
			if job.ID == 1 {
				return (*unreadable)(nil)
			}
			return nil
		}))
		ids := enqueue(t, m, plain(2)...)
		synctest.Wait()
		stopped(t, stop)
		if j := m.job(ids[0]); j.State != dibs.Waiting || !strings.Contains(j.Errors[0].Error, "*dibs_test.unreadable") {
			t.Errorf("the job is %s with history %v", j.State, j.Errors)
		}
		if s := m.job(ids[1]).State; s != dibs.Completed {
			t.Errorf("the other job is %s", s)
		}
	})
}

func TestOneWorkerMayRunTwice(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var jobs sync.WaitGroup
	const n = 40
	jobs.Add(n) // a job that runs twice makes the counter negative, which panics
	w := quiet(store, func(context.Context, *dibs.RawJob) error {
		jobs.Done()
		return nil
	})
	w.Name = ""
	first, second := run(t, w), run(t, w)
	if _, err := store.Enqueue(t.Context(), plain(n)); err != nil {
		t.Fatal(err)
	}
	jobs.Wait()
	stopped(t, first)
	stopped(t, second)
	stopped(t, run(t, w)) // the second run
}

// A kind's jobs go to the queue that its options name. A worker that does not serve that queue
// would leave them there for ever, without a word.
func TestAWorkerOfAnotherQueueThanThatOfItsKindsSaysSo(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		nothing := func(context.Context, *dibs.Job[int]) error { return nil }
		kinds := func(w *dibs.Worker, queues ...string) (*dibs.Worker, *panicking) {
			log := &panicking{}
			w.Store, w.Hooks.Log = m, slog.New(slog.NewTextHandler(log, nil))
			for _, queue := range queues {
				dibs.NewKind[int]("kind of "+queue, dibs.KindOptions{Queue: queue}).Handle(w, nothing)
			}
			return w, log
		}
		never, _ := kinds(&dibs.Worker{}, "mails", "reports")
		var invalid *dibs.InvalidError
		err := never.Run(t.Context())
		if !errors.As(err, &invalid) || invalid.Field != "worker.queue" {
			t.Fatalf("a worker that none of its kinds can reach: %v", err)
		}
		for _, word := range []string{`"default"`, `"kind of mails"`, `"mails"`, `"kind of reports"`, `"reports"`} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("the error lacks %s: %v", word, err)
			}
		}
		some, log := kinds(&dibs.Worker{Queue: "mails"}, "mails", "reports")
		stopped(t, run(t, some))
		if !log.says(`does not serve" kind_queue=reports kinds="[kind of reports]" queue=mails`) || log.says("kind_queue=mails") {
			t.Errorf("the log of a worker that serves one of two: %s", log.logged)
		}
		all, log := kinds(&dibs.Worker{Queues: []dibs.WorkQueue{{Name: "mails"}, {Name: "reports"}}}, "mails", "reports")
		stopped(t, run(t, all))
		anywhere, more := kinds(&dibs.Worker{}, "")
		stopped(t, run(t, anywhere))
		if log.says("does not serve") || more.says("does not serve") {
			t.Errorf("the logs of workers of all queues: %s %s", log.logged, more.logged)
		}
	})
}

func TestChangesOfNothingAreRefused(t *testing.T) {
	t.Parallel()
	for field, err := range map[string]error{"queue": dibs.QueueChange{}.Apply(nil), "group": dibs.GroupChange{}.Apply(nil)} {
		if invalid := new(dibs.InvalidError); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("a change of a %s that is nil: %v", field, err)
		}
	}
}
