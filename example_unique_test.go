package dibs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dibs-queue/dibs"
)

// A change of a document has it indexed, ten seconds after the last of several changes.
func ExampleNewJob_debounce() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	index := dibs.NewJob{
		Queue: "index", Kind: "index", Payload: 7, // the document
		UniqueKey: "doc-7", UniqueUntil: dibs.UntilClaimed,
		IfHeld: dibs.HeldPush, Delay: 10 * time.Second, DelayLimit: 2 * time.Minute,
	}
	for range 3 {
		done, err := store.Enqueue(ctx, []dibs.NewJob{index})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("job", done[0].ID, "pushed:", done[0].Pushed)
	}
	// Output:
	// job 1 pushed: false
	// job 1 pushed: true
	// job 1 pushed: true
}

// Each customer gets one digest a day, with what was last known before it is sent.
func ExampleNewJob_daily() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	for _, news := range []string{"one", "one, two"} {
		done, err := store.Enqueue(ctx, []dibs.NewJob{{
			Queue: "mails", Kind: "digest", Payload: news,
			UniqueKey: "ann", UniqueWindow: "day in Europe/Berlin", IfHeld: dibs.HeldReplace,
		}})
		if err != nil {
			log.Fatal(err)
		}
		switch e := done[0]; {
		case !e.Existing:
			fmt.Println("enqueued", news)
		case e.Replaced:
			fmt.Println("replaced by", news)
		default:
			fmt.Println("today's digest has been sent, or is being sent, without", news)
		}
	}
	// Output:
	// enqueued one
	// replaced by one, two
}
