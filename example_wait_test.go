package dibs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dibs-queue/dibs"
)

// A request handler enqueues a job, and waits for its result for as long as its client does.
func ExampleDatabase_wait() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	worker := &dibs.Worker{Store: store}
	dibs.Handle(worker, "double", func(ctx context.Context, job *dibs.Job[int]) error {
		return job.SetResult(2 * job.Payload)
	})
	working, stop := context.WithCancel(ctx)
	stopped := make(chan error)
	go func() { stopped <- worker.Run(working) }()

	added, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "double", Payload: 21}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	job, err := store.Wait(ctx, added[0].ID)
	if err != nil {
		log.Fatal(err) // not in time, or there is no such job
	}
	fmt.Println(job.State, string(job.Result))

	stop()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// completed 42
}

// Calls of SetProgress cost next to nothing, so there may be one for each row.
func ExampleRawJob_SetProgress() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "import", Payload: []string{"ann", "bob", "eve"}}}); err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(ctx)
	worker := &dibs.Worker{Store: store}
	dibs.Handle(worker, "import", func(ctx context.Context, job *dibs.Job[[]string]) error {
		defer stop()
		for i, name := range job.Payload {
			fmt.Println("importing", name)
			if err := job.SetProgress(int64(i+1), int64(len(job.Payload)), "customers"); err != nil {
				return err
			}
		}
		return nil
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// importing ann
	// importing bob
	// importing eve
}
