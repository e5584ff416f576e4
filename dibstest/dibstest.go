// Package dibstest helps to test programs that use dibs. [Store] makes a real queue in a new SQLite file, which
// behaves as PostgreSQL does as far as a handler can tell. [Postgres] makes one in a new PostgreSQL database, for
// handlers that run SQL there.
package dibstest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

// patience is how long a call waits for what must happen, even on a busy machine. A test of
// this package changes it.
var patience = time.Minute

// Store is an empty queue in a file of the test's own. It is closed, and the file removed,
// when the test ends.
func Store(t testing.TB) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// Want describes a job. Empty fields match anything.
type Want struct {
	Queue string
	Kind  string
	// Payload is compared as JSON: {"a":1} is {"a": 1}.
	Payload   any
	Group     string
	UniqueKey string
	State     dibs.State // default: any job that has not ended
}

// RequireEnqueued ends the test unless exactly one job is as wanted, and returns it.
func RequireEnqueued(t testing.TB, db admin.Database, want Want) *dibs.RawJob {
	t.Helper()
	found, all := find(t, db, want)
	if len(found) != 1 {
		t.Fatalf("%d jobs are as wanted, not one: %s\n%s", len(found), want, list(all))
	}
	return found[0]
}

// NotEnqueued fails the test if a job is as described.
func NotEnqueued(t testing.TB, db admin.Database, want Want) {
	t.Helper()
	if found, _ := find(t, db, want); len(found) > 0 {
		t.Errorf("there should be no such job: %s\n%s", want, list(found))
	}
}

func find(t testing.TB, db admin.Database, want Want) (found, all []*dibs.RawJob) {
	t.Helper()
	var payload []byte
	if want.Payload != nil {
		var err error
		if payload, err = compact(want.Payload); err != nil {
			t.Fatalf("the wanted payload: %v", err)
		}
	}
	f := admin.Filter{Queue: want.Queue, State: want.State, Limit: 1000}
	for {
		page, err := db.List(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Jobs...)
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	for _, j := range all {
		own, err := compact(j.Payload)
		if err != nil {
			t.Fatalf("payload of job %d: %v", j.ID, err)
		}
		if same(want.Kind, j.Kind) && same(want.Group, j.Group) && same(want.UniqueKey, j.UniqueKey) && (payload == nil || bytes.Equal(payload, own)) {
			found = append(found, j)
		}
	}
	return found, all
}

func same(want, got string) bool { return want == "" || want == got }

// compact is v as JSON, with the members of objects in order and without spaces.
func compact(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var any any
	if err := d.Decode(&any); err != nil {
		return nil, err
	}
	return json.Marshal(any)
}

// String describes the wanted job.
func (w Want) String() string {
	text := "a job"
	for _, f := range [][2]string{{"queue", w.Queue}, {"kind", w.Kind}, {"group", w.Group}, {"unique key", w.UniqueKey}, {"state", string(w.State)}} {
		if f[1] != "" {
			text += fmt.Sprintf(", %s %s", f[0], f[1])
		}
	}
	if w.Payload != nil {
		raw, _ := json.Marshal(w.Payload) // find reports an error
		text += ", payload " + string(raw)
	}
	return text
}

// list is a line for each job.
func list(jobs []*dibs.RawJob) string {
	if len(jobs) == 0 {
		return "there is none"
	}
	var b strings.Builder
	b.WriteString("there are")
	for _, j := range jobs {
		fmt.Fprintf(&b, "\n  job %d, %s, queue %s, kind %s, payload %.200s", j.ID, j.State, j.Queue, j.Kind, j.Payload)
	}
	return b.String()
}

// Work enqueues a job, has the worker make one attempt at it, through its real loop, and
// returns the attempt. The job's queue is the worker's first unless it has one. The worker needs
// a Store that is an admin.Database; its hooks go on. Jobs that were waiting before may run too.
// A job of a kind that the worker has no handler for ends the test at once.
func Work(t testing.TB, w *dibs.Worker, job dibs.NewJob) dibs.Attempt {
	t.Helper()
	db, ok := w.Store.(admin.Database)
	if !ok {
		t.Fatalf("the worker's store is a %T, which cannot enqueue", w.Store)
	}
	queues := queuesOf(w)
	if job.Queue = cmp.Or(job.Queue, queues[0]); !slices.Contains(queues, job.Queue) {
		t.Fatalf("the job is of queue %s, the worker of queue %s", job.Queue, strings.Join(queues, ", "))
	}
	done, err := db.Enqueue(t.Context(), []dibs.NewJob{job})
	if err != nil {
		t.Fatal(err)
	}
	if !done[0].Existing && !handles(w, job.Kind) { // a job that holds the unique key may be of another kind
		failUnworked(t, w, db, "")
	}
	var made *dibs.Attempt
	runUntil(t, w, db, func(a dibs.Attempt) bool {
		if a.Job.ID == done[0].ID && made == nil {
			made = &a
		}
		return made != nil
	}, nil)
	return *made
}

// queuesOf are the names of the worker's queues.
func queuesOf(w *dibs.Worker) (names []string) {
	for _, q := range w.Queues {
		names = append(names, q.Name)
	}
	if len(names) == 0 {
		names = []string{cmp.Or(w.Queue, dibs.DefaultQueue)}
	}
	return names
}

// Drain runs the worker until its queues have no job that is due, blocked or running, those of
// schedules whose ticks have come among them, and returns the attempts that it has made. It ends
// the test as soon as only jobs are left whose kinds the worker has no handler for.
func Drain(t testing.TB, w *dibs.Worker) []dibs.Attempt {
	t.Helper()
	db, ok := w.Store.(admin.Database)
	if !ok {
		t.Fatalf("the worker's store is a %T, which has no statistics", w.Store)
	}
	var mu sync.Mutex
	var made []dibs.Attempt
	runUntil(t, w, db, func(a dibs.Attempt) bool {
		mu.Lock()
		defer mu.Unlock()
		made = append(made, a)
		return false
	}, func(ctx context.Context) (bool, error) { return empty(ctx, w, db) })
	mu.Lock()
	defer mu.Unlock()
	return made
}

// errNoHandler: jobs are due, and the worker has a handler for none of them.
var errNoHandler = errors.New("no handler")

// empty looks for jobs that could run by now. A sweep before enqueues those of schedules.
func empty(ctx context.Context, w *dibs.Worker, db admin.Database) (bool, error) {
	if _, err := db.Sweep(ctx); err != nil {
		return false, err
	}
	all, err := db.Stats(ctx)
	if err != nil {
		return false, err
	}
	queues, left := queuesOf(w), false
	for _, s := range all {
		switch {
		case !slices.Contains(queues, s.Queue):
		case s.Running > 0: // what it runs may enqueue more
			return false, nil
		case s.Waiting != s.Scheduled || s.Blocked > 0:
			left = true
		}
	}
	if !left {
		return true, nil
	}
	return false, anyHandled(ctx, w, db, all)
}

// anyHandled gives errNoHandler if jobs are due and the worker runs none of them. before are the statistics of just now: if
// they change meanwhile, the worker has claimed some.
func anyHandled(ctx context.Context, w *dibs.Worker, db admin.Database, before []admin.QueueStats) error {
	var due []string
	queues := queuesOf(w)
	for _, queue := range queues {
		kinds, err := db.DueKinds(ctx, queue)
		if err != nil {
			return err
		}
		due = append(due, kinds...)
	}
	if len(due) == 0 || slices.ContainsFunc(due, func(kind string) bool { return handles(w, kind) }) {
		return nil
	}
	now, err := db.Stats(ctx)
	if err == nil && slices.EqualFunc(before, now, func(a, b admin.QueueStats) bool {
		return !slices.Contains(queues, a.Queue) || a.Queue == b.Queue && a.Waiting == b.Waiting && a.Running == b.Running && a.Claimed == b.Claimed
	}) {
		err = errNoHandler
	}
	return err
}

// handles reports whether a worker has a handler for a kind. One without any handlers does not
// run, and says why itself.
func handles(w *dibs.Worker, kind string) bool {
	kinds := w.Kinds()
	return len(kinds) == 0 || slices.Contains(kinds, kind)
}

// runUntil runs a copy of the worker until an attempt or a look at the queue says that it is enough.
func runUntil(t testing.TB, w *dibs.Worker, db admin.Database, attempt func(dibs.Attempt) bool, look func(context.Context) (bool, error)) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	own, finished := *w, w.Hooks.Finished
	if own.Hooks.Log == nil {
		own.Hooks.Log = slog.New(slog.DiscardHandler)
	}
	own.Hooks.Finished = func(a dibs.Attempt) {
		if finished != nil {
			finished(a)
		}
		if attempt(a) {
			stop()
		}
	}
	looked := make(chan error, 1)
	go func() { looked <- lookUntil(ctx, look, stop) }()
	err := own.Run(ctx)
	stop()
	switch err := errors.Join(err, <-looked); {
	case errors.Is(err, errNoHandler):
		failUnworked(t, w, db, "")
	case err != nil:
		t.Fatal(err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		failUnworked(t, w, db, fmt.Sprintf("after %v ", patience))
	}
}

// failUnworked ends the test with a list of the jobs that the worker has not run.
func failUnworked(t testing.TB, w *dibs.Worker, db admin.Database, when string) {
	t.Helper()
	var left []*dibs.RawJob
	for _, queue := range queuesOf(w) {
		_, of := find(t, db, Want{Queue: queue})
		left = append(left, of...)
	}
	t.Fatalf("%sthe worker has not run all jobs of queue %s; has it a handler for their kinds? %s", when, strings.Join(queuesOf(w), ", "), list(left))
}

// lookUntil calls stop once a look says that it is enough, or fails.
func lookUntil(ctx context.Context, look func(context.Context) (bool, error), stop func()) error {
	for look != nil && ctx.Err() == nil {
		enough, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case enough || err != nil:
			stop()
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// Advance moves the clock of the queue on: what is due within d is due at once, and leases
// that would have ended have ended. From then on the clock goes at half speed, until the
// machine's has caught up. It wakes the workers of all queues.
func Advance(t testing.TB, store *sqlite.Store, d time.Duration) {
	t.Helper()
	if d < 0 {
		t.Fatalf("the clock cannot go back by %v", -d)
	}
	if _, err := store.DB().Exec("update dibs_clock set now = now + ?", d.Microseconds()); err != nil {
		t.Fatal(err)
	}
	queues, err := store.Queues(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		store.Wake(q.Name)
	}
}
