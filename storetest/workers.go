package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// The register of workers says who works, by the database's clock, and who was lost.
var workerCases = []oneCase{
	{"an entry is kept as it was written, and seen again", entryKept},
	{"an entry that breaks a rule is refused", badEntries},
	{"many entries are written and removed at once", manyEntries},
	{"a worker that is not seen counts as lost, and comes back", lostWorker},
	{"a worker that nobody stops is lost after 25 to 30 s", crashedWorker},
	{"the entry of a worker that was lost long ago is removed", forgottenWorker},
	{"workers of one name have entries of their own", sameName},
	{"many workers report at once", reportsAtOnce},
	{"Run registers its worker and removes it at the end", runRegisters},
	{"a worker that cannot register works all the same", worksUnregistered},
	{"the kinds of due jobs are found", dueKinds},
}

func anEntry(name string) dibs.WorkerInfo {
	w := dibs.WorkerInfo{Name: name, Host: "h", PID: 7, Version: "v1", Queues: []string{"q"}, Concurrency: 3, State: dibs.WorkerWorking}
	rand.Read(w.ID[:])
	return w
}

func (t *test) register(w dibs.WorkerInfo) {
	t.Helper()
	t.must(t.db.Register(t.ctx, w))
}

func (t *test) workers() []dibs.WorkerInfo {
	t.Helper()
	list, err := t.db.Workers(t.ctx)
	t.must(err)
	return list
}

// worker returns the only entry of a name.
func (t *test) worker(name string) dibs.WorkerInfo {
	t.Helper()
	list := slices.DeleteFunc(t.workers(), func(w dibs.WorkerInfo) bool { return w.Name != name })
	if len(list) != 1 {
		t.Fatalf("there are %d workers %q", len(list), name)
	}
	return list[0]
}

// notSeen makes it look as if a worker was last seen d earlier.
func (t *test) notSeen(name string, d time.Duration) {
	t.Helper()
	ago := fmt.Sprintf("interval '%d milliseconds'", d.Milliseconds())
	if t.Database != PostgreSQL.Database {
		ago = fmt.Sprint(d.Microseconds())
	}
	t.runSQL(fmt.Sprintf("update %%sworker set seen_at = seen_at - %s where name = '%s'", ago, name))
}

func entryKept(t *test) {
	equal(t, "workers before", len(t.workers()), 0)
	a, b := anEntry("a"), anEntry("b")
	a.Queues, a.Kinds = []string{"q", "ü,\"x\"{}"}, []string{"k", `l\n'`}
	t.register(b)
	t.register(a)
	list := t.workers()
	equal(t, "workers", len(list), 2)
	for i, want := range []dibs.WorkerInfo{a, b} {
		got := list[i]
		if got.Since.IsZero() || !got.Seen.Equal(got.Since) || got.Since.Location() != time.UTC {
			t.Fatalf("it is since %v and was seen %v", got.Since, got.Seen)
		}
		want.Since, want.Seen = got.Since, got.Seen
		equal(t, "entry", got, want)
	}
	t.notSeen("a", 10*time.Second)
	a.State = dibs.WorkerStopping
	t.register(a)
	got := t.worker("a")
	equal(t, "state", got.State, dibs.WorkerStopping)
	if !got.Since.Equal(list[0].Since) || !got.Seen.After(list[0].Seen) {
		t.Fatalf("it is since %v and was seen %v, before since %v and seen %v", got.Since, got.Seen, list[0].Since, list[0].Seen)
	}
	a.State = dibs.WorkerStopped
	t.register(a)
	t.register(a) // nothing is left to remove
	if list := t.workers(); len(list) != 1 || list[0].Name != "b" {
		t.Fatalf("the workers are %v", list)
	}
}

func badEntries(t *test) {
	for field, spoil := range map[string]func(*dibs.WorkerInfo){
		"workers[1].id":          func(w *dibs.WorkerInfo) { w.ID = dibs.Token{} },
		"workers[1].name":        func(w *dibs.WorkerInfo) { w.Name = "" },
		"workers[1].host":        func(w *dibs.WorkerInfo) { w.Host = "a\x00b" },
		"workers[1].version":     func(w *dibs.WorkerInfo) { w.Version = strings.Repeat("v", dibs.MaxName+1) },
		"workers[1].queues":      func(w *dibs.WorkerInfo) { w.Queues = nil },
		"workers[1].queues[0]":   func(w *dibs.WorkerInfo) { w.Queues = []string{""} },
		"workers[1].kinds":       func(w *dibs.WorkerInfo) { w.Kinds = make([]string, 1001) },
		"workers[1].kinds[1]":    func(w *dibs.WorkerInfo) { w.Kinds = []string{"k", "\xff"} },
		"workers[1].pid":         func(w *dibs.WorkerInfo) { w.PID = -1 },
		"workers[1].concurrency": func(w *dibs.WorkerInfo) { w.Concurrency = -1 },
		"workers[1].state":       func(w *dibs.WorkerInfo) { w.State = dibs.WorkerLost },
	} {
		w, good := anEntry("w"), anEntry("good")
		spoil(&w)
		var invalid *dibs.InvalidError
		if err := t.db.Register(t.ctx, good, w); !errors.As(err, &invalid) || invalid.Field != field {
			t.Fatalf("a bad %s gives %v", field, err)
		}
	}
	w := anEntry("w")
	invalid(t, t.db.Register(t.ctx, w, w), "workers[1].id")
	invalid(t, t.db.Register(t.ctx, make([]dibs.WorkerInfo, dibs.MaxBatch+1)...), "workers")
	equal(t, "workers", len(t.workers()), 0)
}

// A server reports for all who claim over HTTP in one call.
func manyEntries(t *test) {
	t.must(t.db.Register(t.ctx))
	list := []dibs.WorkerInfo{anEntry("a"), anEntry("b"), anEntry("c")}
	list[1].Kinds = []string{"k", "a, b", `"`}
	list[2].Queues = []string{"r", "{", "q"}
	t.must(t.db.Register(t.ctx, list...))
	list[0].State, list[1].Queues, list[1].Kinds, list[1].Concurrency = dibs.WorkerStopped, []string{"other"}, nil, 9
	list = append(list, anEntry("d"))
	t.must(t.db.Register(t.ctx, list...))
	equal(t, "workers", len(t.workers()), 3)
	for _, want := range list[1:] {
		got := t.worker(want.Name)
		got.Since, got.Seen = time.Time{}, time.Time{}
		equal(t, "entry", got, want)
	}
}

func lostWorker(t *test) {
	w, other := anEntry("w"), anEntry("other")
	t.register(w)
	t.register(other)
	t.notSeen("w", dibs.WorkerLostAfter+time.Millisecond)
	equal(t, "state of the lost one", t.worker("w").State, dibs.WorkerLost)
	equal(t, "state of the other", t.worker("other").State, dibs.WorkerWorking)
	t.register(w) // the process comes back after it was stopped for a while
	equal(t, "state of the one that is back", t.worker("w").State, dibs.WorkerWorking)
	w.State = dibs.WorkerStopping
	t.register(w)
	t.notSeen("w", dibs.WorkerLostAfter+time.Millisecond)
	equal(t, "state of one lost while it stopped", t.worker("w").State, dibs.WorkerLost)
}

// The clock is the database's: no worker has to look.
func crashedWorker(t *test) {
	w := anEntry("w")
	t.register(w)
	start := time.Now()
	elapsed := func() time.Duration { return time.Since(start) + t.passed }
	t.waitUntil("the worker is lost", func() bool {
		t.waitUntilTime(t.worker("w").Seen.Add(elapsed() + 500*time.Millisecond))
		asked := elapsed()
		lost := t.worker("w").State == dibs.WorkerLost
		if early := elapsed() < dibs.WorkerLostAfter-time.Second; lost && early || !lost && asked > 30*time.Second {
			t.Fatalf("after %v to %v the worker is lost: %v", asked, elapsed(), lost)
		}
		return lost
	})
}

func forgottenWorker(t *test) {
	old, older, young := anEntry("old"), anEntry("older"), anEntry("young")
	t.register(old)
	t.register(older)
	t.notSeen("old", dibs.WorkerKeptFor-time.Minute)
	t.notSeen("older", dibs.WorkerKeptFor)
	equal(t, "workers while none reports", len(t.workers()), 2)
	t.register(young)
	equal(t, "state", t.worker("old").State, dibs.WorkerLost)
	if slices.ContainsFunc(t.workers(), func(w dibs.WorkerInfo) bool { return w.Name == "older" }) {
		t.Fatal("a worker that was lost long ago is still listed")
	}
	t.register(older) // the process was suspended for that long
	equal(t, "state of the one that is back", t.worker("older").State, dibs.WorkerWorking)
	t.notSeen("older", 2*dibs.WorkerKeptFor)
	t.register(older) // the same again, while no other worker has reported
	equal(t, "state of the one that is back again", t.worker("older").State, dibs.WorkerWorking)
}

func sameName(t *test) {
	a, b := anEntry("w"), anEntry("w")
	t.register(a)
	t.notSeen("w", dibs.WorkerLostAfter+time.Millisecond)
	t.register(b)
	states := map[dibs.Token]string{}
	for _, w := range t.workers() {
		states[w.ID] = w.State
	}
	equal(t, "states", states, map[dibs.Token]string{a.ID: dibs.WorkerLost, b.ID: dibs.WorkerWorking})
	b.State = dibs.WorkerStopped
	t.register(b)
	equal(t, "the one left", t.worker("w").ID, a.ID)
}

// Each worker comes back after it was lost for long, and may remove the others' entries.
func reportsAtOnce(t *test) {
	list := make([]dibs.WorkerInfo, 16)
	for i := range list {
		list[i] = anEntry(fmt.Sprint("w", i))
	}
	another := t.Another(t)
	for range 5 {
		t.runAtOnce(len(list), func(i int) error { return []admin.Database{t.db, another}[i%2].Register(t.ctx, list[i]) })
		t.notSeen("w' or name like 'w%%", 2*dibs.WorkerKeptFor)
	}
	t.runAtOnce(len(list), func(i int) error { return []admin.Database{t.db, another}[i%2].Register(t.ctx, list[i]) })
	for i := range list {
		equal(t, "state", t.worker(list[i].Name).State, dibs.WorkerWorking)
	}
}

func runRegisters(t *test) {
	started, goOn := make(chan struct{}), make(chan struct{})
	w := &dibs.Worker{Store: t.db, Queue: "q", Name: "w", Concurrency: 2, Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	w.HandleRaw("b", func(context.Context, *dibs.RawJob) error { close(started); <-goOn; return nil })
	w.HandleRaw("a", func(context.Context, *dibs.RawJob) error { return nil })
	stop := t.runWorker(w)
	t.waitUntil("the worker is registered", func() bool { return len(t.workers()) == 1 })
	got := t.worker("w")
	if got.ID.IsZero() || got.Host == "" || got.PID == 0 || got.Version == "" || !slices.Equal(got.Queues, []string{"q"}) ||
		!slices.Equal(got.Kinds, []string{"a", "b"}) || got.Concurrency != 2 || got.State != dibs.WorkerWorking {
		t.Fatalf("the entry is %+v", got)
	}
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "b"})
	<-started
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	select {
	case <-ended:
		t.Fatal("Run returned before its handler")
	case <-time.After(100 * time.Millisecond):
	}
	equal(t, "entry of a worker with a running handler", t.worker("w").ID, got.ID)
	close(goOn)
	<-ended
	equal(t, "workers at the end", len(t.workers()), 0)
}

// runWorker runs a worker. stop stops it and waits for it.
func (t *test) runWorker(w *dibs.Worker) (stop func()) {
	t.goroutines()
	ctx, cancel := context.WithCancel(t.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func worksUnregistered(t *test) {
	t.runSQL("alter table %sworker rename to hidden")
	errs, ran := make(chan string, 100), make(chan struct{}, 1)
	w := &dibs.Worker{Store: t.db, Queue: "q", Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler), Error: func(call string, _ error) { errs <- call }}}
	w.HandleRaw("", func(context.Context, *dibs.RawJob) error { ran <- struct{}{}; return nil })
	stop := t.runWorker(w)
	for <-errs != "register" { // upkeep reads the table too, and may come first
		continue
	}
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})
	<-ran
	stop()
	back := "alter table hidden rename to worker"
	if t.Database != PostgreSQL.Database {
		back = "alter table hidden rename to dibs_worker"
	}
	tx := t.beginTx()
	t.must(tx.Exec(t.ctx, back))
	t.must(tx.Commit())
}

func dueKinds(t *test) {
	kinds := func(queue string, want ...string) {
		t.Helper()
		got, err := t.db.DueKinds(t.ctx, queue)
		t.must(err)
		equal(t, "kinds", got, append([]string{}, want...))
	}
	kinds("q")
	t.enqueue(
		dibs.NewJob{Queue: "q", Kind: "b"}, dibs.NewJob{Queue: "q", Kind: "a", Priority: new(9)}, dibs.NewJob{Queue: "q", Kind: "b", Priority: new(9)},
		dibs.NewJob{Queue: "q", Kind: "later", Delay: time.Hour}, dibs.NewJob{Queue: "other", Kind: "o"},
		dibs.NewJob{Queue: "q", Kind: "first", Group: "g"}, dibs.NewJob{Queue: "q", Kind: "blocked", Group: "g"},
	)
	t.claimOne(dibs.ClaimRequest{Queue: "q", Kinds: []string{"first"}})
	kinds("q", "a", "b")
	t.claimOne(dibs.ClaimRequest{Queue: "q", Kinds: []string{"a"}})
	kinds("q", "b")
	kinds("other", "o")
	if _, err := t.db.DueKinds(t.ctx, ""); !errors.Is(err, dibs.ErrInvalid) {
		t.Fatalf("a queue without a name gives %v", err)
	}
}
