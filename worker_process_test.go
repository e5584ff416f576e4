package dibs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/open"
)

const (
	processEnv   = "DIBS_TEST_PROCESS"      // URL of the database; set in worker processes
	nameEnv      = "DIBS_TEST_PROCESS_NAME" // name of the worker
	processLease = 5 * time.Second
	processSlots = 10
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
		if job.Attempt == 1 {
			<-ctx.Done()
			tell("stopped", job.ID, context.Cause(ctx))
			if job.Kind != "stubborn" {
				return ctx.Err()
			}
		}
		return job.SetResult(name)
	})
	w.Name = name
	w.Lease = processLease
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
