package dibs_test

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

// claim claims n jobs of the queue "default" and returns their payloads.
func claim(ctx context.Context, store dibs.Store, n int) []string {
	jobs, err := store.Claim(ctx, dibs.ClaimRequest{Worker: "example", N: n})
	if err != nil {
		log.Fatal(err)
	}
	payloads := make([]string, len(jobs))
	for i, job := range jobs {
		payloads[i] = string(job.Payload)
	}
	return payloads
}

func ExampleDatabase_enqueue() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	ids, err := store.Enqueue(ctx, []dibs.NewJob{
		{Queue: "emails", Kind: "welcome", Payload: map[string]string{"to": "ann@example.com"}},
		{Queue: "emails", Kind: "welcome", Payload: map[string]string{"to": "bob@example.com"}, MaxAttempts: 3},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(ids), "jobs, the first is", ids[0].ID)
	// Output:
	// 2 jobs, the first is 1
}

// A priority is 0 to 32767: small ones come first, 255 is the default.
func ExampleNewJob_priority() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	_, err := store.Enqueue(ctx, []dibs.NewJob{
		{Kind: "report", Payload: "usual"},
		{Kind: "report", Payload: "urgent", Priority: new(10)},
		{Kind: "report", Payload: "some day", Priority: new(1000)},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(claim(ctx, store, 3))
	// Output:
	// ["urgent" "usual" "some day"]
}

// A job with a delay cannot be claimed before that time has passed on the database's clock.
func ExampleNewJob_delay() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	_, err := store.Enqueue(ctx, []dibs.NewJob{
		{Kind: "remind", Payload: "tomorrow", Delay: 24 * time.Hour},
		{Kind: "remind", Payload: "now"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(claim(ctx, store, 2))
	// Output:
	// ["now"]
}

// A unique key has one holder in its queue: enqueueing it again returns the job that is there.
func ExampleNewJob_uniqueKey() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	for range 2 {
		ids, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "invoice", UniqueKey: "order 17"}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ids[0].ID, ids[0].Existing)
	}
	// Output:
	// 1 false
	// 1 true
}

// Jobs of a group run one at a time and in order, whichever workers claim them.
func ExampleNewJob_group() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	_, err := store.Enqueue(ctx, []dibs.NewJob{
		{Kind: "sync", Payload: "first of Ann's", Group: "ann"},
		{Kind: "sync", Payload: "second of Ann's", Group: "ann"},
		{Kind: "sync", Payload: "first of Bob's", Group: "bob"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(claim(ctx, store, 3))
	// Output:
	// ["first of Ann's" "first of Bob's"]
}

// Both jobs are there when the transaction has committed, or neither.
func ExampleDatabase_inTx() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	err := store.InTx(ctx, func(tx dibs.Tx) error {
		if _, err := tx.Enqueue(ctx, []dibs.NewJob{{Kind: "pack", Payload: 17}}); err != nil {
			return err
		}
		_, err := tx.Enqueue(ctx, []dibs.NewJob{{Kind: "send", Payload: 17, Delay: time.Hour}})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	page, err := store.List(ctx, admin.Filter{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page.Jobs), "jobs")
	// Output:
	// 2 jobs
}

// A claim and what follows from it are written together: here the next step of a job.
func ExampleTx() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Queue: "resize", Kind: "image", Payload: "cat.jpg"}}); err != nil {
		log.Fatal(err)
	}

	err := store.InTx(ctx, func(tx dibs.Tx) error {
		jobs, err := tx.Claim(ctx, dibs.ClaimRequest{Queue: "resize", Worker: "w1", N: 10})
		if err != nil {
			return err
		}
		for _, job := range jobs {
			next := dibs.NewJob{Queue: "upload", Kind: "image", Payload: job.Payload}
			if _, err := tx.Enqueue(ctx, []dibs.NewJob{next}); err != nil {
				return err
			}
			if err := tx.Finish(ctx, []dibs.Outcome{job.Lease().Complete(nil)}); err != nil {
				return err // roll back: nothing has happened
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	page, err := store.List(ctx, admin.Filter{})
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range page.Jobs {
		fmt.Println(job.Queue, string(job.Payload))
	}
	// Output:
	// upload "cat.jpg"
}

// A job that waits is cancelled at once; the holder of a running one is asked to stop.
func ExampleDatabase_cancel() {
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

// Settings are stored in the database. Every process follows a change at its next call.
func ExampleDatabase_changeQueue() {
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
