package main

import (
	"context"
	"log"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

func main() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, "quickstart.db", sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	worker := &dibs.Worker{Store: store}
	dibs.Handle(worker, "greet", func(ctx context.Context, job *dibs.Job[string]) error {
		return log.Output(1, "Hello, "+job.Payload) // nil: completed; an error: run again later
	})
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "greet", Payload: "Ann"}}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(worker.Run(ctx))
}
