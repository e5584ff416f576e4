package admin_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

// temporary opens a store in a folder of its own, which end deletes.
func temporary(ctx context.Context) (store *sqlite.Store, end func()) {
	dir, err := os.MkdirTemp("", "dibs")
	if err != nil {
		log.Fatal(err)
	}
	store, err = sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return store, func() {
		_ = store.Close() // its folder goes in any case
		_ = os.RemoveAll(dir)
	}
}

// A page has the newest jobs first. Page.Next leads to the next one.
func ExampleAdmin_List() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "a"}, {Kind: "b"}, {Kind: "c"}}); err != nil {
		log.Fatal(err)
	}

	filter := admin.Filter{State: dibs.Waiting, Limit: 2}
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

func ExampleAdmin_Stats() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "a"}, {Kind: "a"}, {Kind: "a", Delay: time.Hour}}); err != nil {
		log.Fatal(err)
	}
	if _, err := store.Claim(ctx, dibs.ClaimRequest{Worker: "example", N: 1}); err != nil {
		log.Fatal(err)
	}

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
