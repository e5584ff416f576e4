package dibs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dibs-queue/dibs"
)

// In a fair queue groups take turns: a customer's two reports do not wait for the 1,000 of another.
func ExampleOrder_fair() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	fair, places := dibs.Fair, 4
	_, err := store.ChangeQueue(ctx, "reports", dibs.QueueChange{Order: &fair, GroupLimit: &places}.Apply)
	if err != nil {
		log.Fatal(err)
	}

	var jobs []dibs.NewJob
	for range 1000 {
		jobs = append(jobs, dibs.NewJob{Queue: "reports", Kind: "report", Group: "large"})
	}
	for range 2 {
		jobs = append(jobs, dibs.NewJob{Queue: "reports", Kind: "report", Group: "small"})
	}
	if _, err := store.Enqueue(ctx, jobs); err != nil {
		log.Fatal(err)
	}
	claimed, err := store.Claim(ctx, dibs.ClaimRequest{Queue: "reports", Worker: "w", N: 6})
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range claimed {
		fmt.Print(job.Group, " ")
	}
	// Output:
	// large small large small large large
}
