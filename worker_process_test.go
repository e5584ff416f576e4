package dibs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/open"
)

const (
	processEnv   = "DIBS_TEST_PROCESS"      // URL of the database; set in worker processes
	nameEnv      = "DIBS_TEST_PROCESS_NAME" // name of the worker
	queueEnv     = "DIBS_TEST_PROCESS_QUEUE"
	processLease = 5 * time.Second
	processSlots = 10
	patient      = "patient" // begins the names of workers with leases that are not extended while a test runs
)

// event is a line of JSON that a worker process sends to the test.
type event struct {
	Worker string `json:"-"`
	What   string
	Job    int64
	At     time.Time
	Detail string
}

// process is the main function of a worker process. Its handler waits for the end of its
// context in a job's first attempt, and completes later ones at once.
func process() int {
	name := os.Getenv(nameEnv)
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	tell := func(what string, job int64, detail any) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(event{What: what, Job: job, At: time.Now(), Detail: fmt.Sprint(detail)})
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := open.Database(ctx, open.URL(os.Getenv(processEnv)), open.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer db.Close()
	w := quiet(db, func(ctx context.Context, job *dibs.RawJob) error {
		tell("started", job.ID, job.Attempt)
		if job.Kind == "counting" {
			for n := int64(1); ctx.Err() == nil; n++ {
				if err := job.SetProgress(n, 0, "counting"); err != nil {
					return err
				}
				tell("set", job.ID, n)
				time.Sleep(10 * time.Millisecond)
			}
		}
		if job.Kind == "charging" {
			by, err := dibs.Step(ctx, job, "charge", func(context.Context) (int, error) {
				tell("charged", job.ID, job.Attempt)
				return job.Attempt, nil
			})
			if err != nil {
				return err
			}
			tell("receipt", job.ID, by)
		}
		if job.Attempt == 1 {
			<-ctx.Done()
			tell("stopped", job.ID, context.Cause(ctx))
			if job.Kind != "stubborn" {
				return ctx.Err()
			}
		}
		return job.SetResult(name)
	})
	w.Name, w.Queue = name, os.Getenv(queueEnv)
	if w.Lease = processLease; strings.HasPrefix(name, patient) {
		w.Lease = time.Hour
	}
	w.Concurrency = processSlots
	w.ShutdownWait = -1
	w.Hooks.Finished = func(a dibs.Attempt) {
		if a.NotWritten != nil {
			tell("refused", a.Job.ID, a.NotWritten)
		} else {
			tell("finished", a.Job.ID, a.Outcome.Ending)
		}
	}
	if err := w.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
