package dibs_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

type Welcome struct{ To string }

func ExampleWorker() {
	ctx, stop := context.WithCancel(context.Background()) // a program ends it on SIGTERM
	defer stop()
	dir, err := os.MkdirTemp("", "dibs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	_, err = store.Enqueue(ctx, []dibs.NewJob{{Queue: "emails", Kind: "welcome", Payload: Welcome{To: "ann"}}})
	if err != nil {
		panic(err)
	}

	w := &dibs.Worker{Store: store, Queue: "emails", Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	dibs.Handle(w, "welcome", func(_ context.Context, job *dibs.Job[Welcome]) error {
		fmt.Println("welcome", job.Payload.To)
		stop()
		return job.SetResult("sent")
	})
	if err := w.Run(ctx); err != nil {
		panic(err)
	}
	job, err := store.Get(context.Background(), 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(job.State, string(job.Result))
	// Output:
	// welcome ann
	// completed "sent"
}
