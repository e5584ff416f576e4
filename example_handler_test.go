package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/dibs-queue/dibs"
)

// runOnce runs a worker on a new queue with one job, lets it make one attempt, and returns
// the job as it is afterwards. register registers the handler of the kind "job".
func runOnce(payload any, register func(w *dibs.Worker)) *dibs.RawJob {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store, end := temporary(ctx)
	defer end()
	ids, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "job", Payload: payload}})
	if err != nil {
		log.Fatal(err)
	}
	w := &dibs.Worker{Store: store, Hooks: dibs.Hooks{
		Log:      slog.New(slog.DiscardHandler),
		Finished: func(dibs.Attempt) { stop() },
	}}
	register(w)
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	job, err := store.Get(context.Background(), ids[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	return job
}

func ExampleHandle() {
	type email struct {
		To string `json:"to"`
	}
	job := runOnce(email{To: "ann@example.com"}, func(w *dibs.Worker) {
		dibs.Handle(w, "job", func(ctx context.Context, job *dibs.Job[email]) error {
			fmt.Println("to", job.Payload.To, "attempt", job.Attempt)
			return nil // completed
		})
	})
	fmt.Println(job.State)
	// Output:
	// to ann@example.com attempt 1
	// completed
}

func ExampleRawJob_SetResult() {
	job := runOnce([]int{1, 2, 3}, func(w *dibs.Worker) {
		dibs.Handle(w, "job", func(ctx context.Context, job *dibs.Job[[]int]) error {
			sum := 0
			for _, n := range job.Payload {
				sum += n
			}
			return job.SetResult(map[string]int{"sum": sum})
		})
	})
	fmt.Println(job.State, string(job.Result))
	// Output:
	// completed {"sum":6}
}

// An error fails the attempt: the job runs again after its queue's backoff.
func ExampleRetry() {
	job := runOnce("report.pdf", func(w *dibs.Worker) {
		dibs.Handle(w, "job", func(ctx context.Context, job *dibs.Job[string]) error {
			return errors.New("the printer is offline") // or dibs.Retry(err)
		})
	})
	fmt.Println(job.State, job.Errors[0].Error)
	// Output:
	// waiting the printer is offline
}

// The server of somebody else says when to come back.
func ExampleRetryAfter() {
	job := runOnce("ann", func(w *dibs.Worker) {
		dibs.Handle(w, "job", func(ctx context.Context, job *dibs.Job[string]) error {
			return dibs.RetryAfter(time.Minute, errors.New("429 Too Many Requests"))
		})
	})
	fmt.Println(job.State, job.Errors[0].Error, job.RunAt.Sub(job.ClaimedAt) >= time.Minute)
	// Output:
	// waiting 429 Too Many Requests true
}

// What the job waits for is not there yet. That is no failure, so it does not count.
func ExampleSnooze() {
	job := runOnce("video.mp4", func(w *dibs.Worker) {
		dibs.Handle(w, "job", func(ctx context.Context, job *dibs.Job[string]) error {
			return dibs.Snooze(5 * time.Minute)
		})
	})
	fmt.Println(job.State, "attempts", job.Attempt, "not counted", job.Excused, "errors", len(job.Errors))
	// Output:
	// waiting attempts 1 not counted 1 errors 0
}

// To try again would be of no use.
func ExampleDie() {
	job := runOnce("nobody@example.com", func(w *dibs.Worker) {
		dibs.Handle(w, "job", func(ctx context.Context, job *dibs.Job[string]) error {
			return dibs.Die(errors.New("550 no such mailbox"))
		})
	})
	fmt.Println(job.State, job.Errors[0].Error)
	// Output:
	// dead 550 no such mailbox
}

// Hooks see each claim, start, end, lost lease and failed call. They must not block.
func ExampleHooks() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "job"}}); err != nil {
		log.Fatal(err)
	}

	w := &dibs.Worker{Store: store, Hooks: dibs.Hooks{
		Log:     slog.New(slog.DiscardHandler),
		Claimed: func(jobs []*dibs.RawJob, took time.Duration) { fmt.Println("claimed", len(jobs)) },
		Finished: func(a dibs.Attempt) {
			fmt.Println("job", a.Job.ID, a.Outcome.Ending, "written:", a.NotWritten == nil)
			stop()
		},
	}}
	dibs.Handle(w, "job", func(context.Context, *dibs.Job[any]) error { return nil })
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// claimed 1
	// job 1 completed written: true
}
