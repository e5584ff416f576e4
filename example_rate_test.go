package dibs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dibs-queue/dibs"
)

// A rate limits how many jobs start, over all workers: of a queue, of each of its groups, or of one.
func ExampleRate() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	_, err := store.ChangeQueue(ctx, "emails", dibs.QueueChange{Rate: &dibs.Rate{N: 100, Per: time.Minute, Burst: 10}}.Apply)
	if err != nil {
		log.Fatal(err)
	}
	_, err = store.ChangeQueue(ctx, "calls", dibs.QueueChange{GroupRate: &dibs.Rate{N: 5, Per: time.Second}}.Apply)
	if err != nil {
		log.Fatal(err)
	}
	err = store.ChangeGroup(ctx, "calls", "customer-7", dibs.GroupChange{Rate: &dibs.Rate{N: 20, Per: time.Second}}.Apply)
	if err != nil {
		log.Fatal(err)
	}

	emails := make([]dibs.NewJob, 30)
	for i := range emails {
		emails[i] = dibs.NewJob{Queue: "emails", Kind: "newsletter"}
	}
	if _, err := store.Enqueue(ctx, emails); err != nil {
		log.Fatal(err)
	}
	jobs, err := store.Claim(ctx, dibs.ClaimRequest{Queue: "emails", Worker: "w", N: 30})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(jobs), "start at once, others as time passes")
	// Output:
	// 11 start at once, others as time passes
}
