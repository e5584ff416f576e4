package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// letters maps one queue of the table that River's migrations create. attempted_by is an
// array, so the attempt's number and start fence a claim. The errors are a JSON array, to
// which a mapping cannot append.
const letters = `
table: river_job
queue: letters
where: queue = 'letters'
id: id
order: [priority, scheduled_at]
unfinished: state in ('available', 'scheduled', 'retryable', 'running')
available: state in ('available', 'scheduled', 'retryable')
not_before: scheduled_at
kind: kind
payload: {columns: args}
claim: {started_at: attempted_at, attempts: attempt, set: {state: running}}
lease: 5s
max_attempts_column: max_attempts
put_back: {set: {state: retryable}}
completed: {set: {state: completed, finalized_at: $now}}
dead: {set: {state: discarded, finalized_at: $now}}
cancelled: {set: {state: cancelled, finalized_at: $now}}
`

type letter struct {
	N int `json:"n"`
}

func (letter) Kind() string { return "letter" }

// riverWorker is River's worker, which does the jobs of the other queue.
type riverWorker struct {
	river.WorkerDefaults[letter]
	*doneCounts
}

func (w riverWorker) Work(_ context.Context, j *river.Job[letter]) error { return w.note(j.Args.N) }

type doneCounts struct {
	mu sync.Mutex
	n  map[int]int
}

func (s *doneCounts) note(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[n]++
	return nil
}

// The attempts of these letters fail: of failing the first one, of doomed the last one.
const failing, doomed = 8, 7

// handle is the handler for the worker of dibs.
func (s *doneCounts) handle(_ context.Context, j *dibs.RawJob) error {
	var l letter
	if err := json.Unmarshal(j.Payload, &l); err != nil {
		return err
	}
	switch {
	case l.N == failing && j.Attempt == 1:
		return errors.New("not this time")
	case l.N == doomed:
		return dibs.Die(errors.New("never"))
	}
	return s.note(l.N)
}

func (s *doneCounts) once(from, to int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := from; n < to; n++ {
		if s.n[n] != 1 {
			return false
		}
	}
	return len(s.n) == to-from
}

// TestRiversTableIsAdopted does the jobs of one queue of River's table with dibs, while
// River inserts into it and does those of another. River reads what dibs has finished.
func TestRiversTableIsAdopted(t *testing.T) {
	ctx, url := t.Context(), pgtest.URL(t)
	pool, err := pgxpool.New(ctx, url)
	must(t, err)
	defer pool.Close()
	driver, quiet := riverpgxv5.New(pool), slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	must(t, err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	must(t, err)
	const jobs = 500
	theirs, ours := &doneCounts{n: map[int]int{}}, &doneCounts{n: map[int]int{}}
	workers := river.NewWorkers()
	river.AddWorker(workers, riverWorker{doneCounts: theirs})
	client, err := river.NewClient(driver, &river.Config{Logger: quiet, Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}}})
	must(t, err)
	must(t, client.Start(ctx))

	m, err := mapping.Parse([]byte(letters))
	must(t, err)
	db, err := sql.Open("pgx", url)
	must(t, err)
	defer db.Close()
	store, err := adopt.Open(ctx, db, m)
	must(t, err)
	w := &dibs.Worker{Store: store, Queue: store.Queue(), Hooks: dibs.Hooks{Log: quiet}}
	w.HandleRaw("letter", ours.handle)
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	for n := range jobs {
		opts := &river.InsertOpts{Queue: "letters"}
		if n%50 == 1 {
			opts.ScheduledAt = time.Now().Add(time.Second)
		}
		_, err := client.Insert(ctx, letter{n}, opts)
		must(t, err)
		_, err = client.Insert(ctx, letter{jobs + n}, nil)
		must(t, err)
	}
	count := func(state rivertype.JobState) int {
		found, err := client.JobList(ctx, river.NewJobListParams().Queues("letters").States(state).First(jobs))
		must(t, err)
		for _, j := range found.Jobs {
			if j.FinalizedAt == nil || j.AttemptedAt == nil || j.Attempt < 1 || j.FinalizedAt.Before(*j.AttemptedAt) {
				t.Errorf("River reads the finished job as %+v", j)
			}
		}
		return len(found.Jobs)
	}
	timeout := time.After(time.Minute)
	for tick := time.Tick(20 * time.Millisecond); count(rivertype.JobStateCompleted) < jobs-1 || !theirs.once(jobs, 2*jobs); {
		select {
		case <-tick:
		case <-timeout:
			t.Fatalf("%d of %d are completed", count(rivertype.JobStateCompleted), jobs-1)
		}
	}
	if n := count(rivertype.JobStateDiscarded); n != 1 {
		t.Errorf("%d jobs are discarded, want one", n)
	}
	stop()
	must(t, <-ended)
	must(t, client.Stop(ctx))
	ours.n[doomed]++
	if !ours.once(0, jobs) {
		t.Error("some jobs were not done exactly once")
	}
	invariants(ctx, t, pool)
}

// invariants checks the rows themselves.
func invariants(ctx context.Context, t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(ctx, "select distinct state::text from river_job")
	must(t, err)
	states, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	slices.Sort(states)
	if !slices.Equal(states, []string{"completed", "discarded"}) {
		t.Errorf("states: %q", states)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
