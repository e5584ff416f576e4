package dibs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dibs-queue/dibs"
)

// The program that enqueues the jobs of schedules says at its start which there are.
func ExampleSchedules() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	err := store.SetSchedules(ctx, "shop", []dibs.Schedule{
		{Name: "tidy", Spec: "every 90s", Queue: "chores", Kind: "tidy"},
		{Name: "report", Spec: "0 9 * * mon-fri", Zone: "Europe/Berlin", Queue: "reports", Kind: "daily", Payload: map[string]string{"to": "ann@example.com"}},
	})
	if err != nil {
		log.Fatal(err)
	}

	list, err := store.Schedules(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range list {
		fmt.Println(s.Name, s.Spec, s.Zone, s.Queue)
	}
	// Output:
	// report 0 9 * * mon-fri Europe/Berlin reports
	// tidy every 90s UTC chores
}

// A handler learns which period its job is for from the tick, however late it runs.
func ExampleSchedule() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	s, err := store.SetSchedule(ctx, dibs.Schedule{Name: "count", Spec: "every 1s", Queue: "chores", Kind: "count"})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(ctx)
	w := &dibs.Worker{Store: store, Queue: "chores"}
	dibs.Handle(w, "count", func(ctx context.Context, job *dibs.Job[any]) error {
		defer stop()
		until := job.Tick
		fmt.Println("count from", until.Add(-time.Second).Sub(s.Since), "to", until.Sub(s.Since), "for", job.Schedule)
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// count from 0s to 1s for count
}
