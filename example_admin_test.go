package dibs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dibs-queue/dibs"
)

// A page has the newest jobs first. Page.Next leads to the next one.
func ExampleAdmin_List() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "a"}, {Kind: "b"}, {Kind: "c"}}); err != nil {
		log.Fatal(err)
	}

	filter := dibs.Filter{State: dibs.Waiting, Limit: 2}
	for {
		page, err := store.List(ctx, filter)
		if err != nil {
			log.Fatal(err)
		}
		for _, job := range page.Jobs {
			fmt.Println(job.ID, job.Kind)
		}
		if page.Next == "" {
			break
		}
		filter.After = page.Next
	}
	// Output:
	// 3 c
	// 2 b
	// 1 a
}

// A job that waits is cancelled at once; the holder of a running one is asked to stop.
func ExampleAdmin_Cancel() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "a"}, {Kind: "a"}}); err != nil {
		log.Fatal(err)
	}
	claim(ctx, store, 1)

	ended, asked, err := store.Cancel(ctx, []int64{1, 2})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ended", ended, "asked to stop", asked)
	// Output:
	// ended [2] asked to stop [1]
}

// A dead job is put back with all its attempts, and keeps its errors.
func ExampleAdmin_Requeue() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "a"}}); err != nil {
		log.Fatal(err)
	}
	jobs, err := store.Claim(ctx, dibs.ClaimRequest{Worker: "w1", N: 1})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Die("no such address")}); err != nil {
		log.Fatal(err)
	}

	ids, err := store.Requeue(ctx, []int64{1}, time.Time{})
	if err != nil {
		log.Fatal(err)
	}
	job, err := store.Get(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids, job.State, job.Errors[0].Error)
	// Output:
	// [1] waiting no such address
}

// Settings are stored in the database. Every process follows a change at its next call.
func ExampleAdmin_ChangeQueue() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	q, err := store.ChangeQueue(ctx, "emails", dibs.QueueChange{
		Concurrency:   new(20), // over all workers
		MaxAttempts:   new(5),
		Backoff:       &dibs.Backoff{Base: 10 * time.Second, Factor: 3, Max: time.Hour, Jitter: 0.1},
		KeepCompleted: new(time.Hour),
	}.Apply)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(q.Name, q.Concurrency, q.MaxAttempts, q.Backoff.Base, q.KeepCompleted, q.Lease)
	// Output:
	// emails 20 5 10s 1h0m0s 10s
}

func ExampleAdmin_Stats() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "a"}, {Kind: "a"}, {Kind: "a", Delay: time.Hour}}); err != nil {
		log.Fatal(err)
	}
	claim(ctx, store, 1)

	stats, err := store.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range stats {
		fmt.Printf("%s: %d waiting, %d of them for later, %d running\n", q.Queue, q.Waiting, q.Scheduled, q.Running)
	}
	// Output:
	// default: 2 waiting, 1 of them for later, 1 running
}
