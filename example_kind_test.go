package dibs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dibs-queue/dibs"
)

// Confirmation is the payload of the kind that confirms orders.
type Confirmation struct {
	Order int
	To    string
}

var errMailServerBusy = errors.New("mail server busy")

// confirm is known to those who enqueue and to those who handle.
var confirm = dibs.NewKind[Confirmation]("confirm", dibs.KindOptions{
	Queue:       "mail",
	MaxAttempts: 5,
	Timeout:     time.Minute,
	Backoff:     dibs.Backoff{Base: 10 * time.Second, Factor: 3, Max: time.Hour, Jitter: 0.1}.After,
	IsFailure:   func(err error) bool { return !errors.Is(err, errMailServerBusy) },
})

// A Kind ties the name of a kind to the type of its payload: the compiler finds a wrong one.
func ExampleNewKind() {
	ctx, stop := context.WithCancel(context.Background())
	store, end := temporary(ctx)
	defer end()

	if _, err := confirm.Enqueue(ctx, store, Confirmation{17, "ann@example.com"}); err != nil {
		log.Fatal(err)
	}

	w := &dibs.Worker{Store: store, Queue: "mail"}
	confirm.Handle(w, func(ctx context.Context, job *dibs.Job[Confirmation]) error {
		defer stop()
		fmt.Println("order", job.Payload.Order, "is confirmed to", job.Payload.To)
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// order 17 is confirmed to ann@example.com
}

// Options say where the job stands among others: here, each customer's jobs run one after the other, and no
// order is confirmed twice at the same time.
func ExampleKind_Enqueue() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()

	for range 2 {
		done, err := confirm.Enqueue(ctx, store, Confirmation{17, "ann@example.com"},
			dibs.InGroup("ann"), dibs.UniqueByPayload, dibs.Priority(10))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("job", done.ID, "existing:", done.Existing)
	}
	// Output:
	// job 1 existing: false
	// job 1 existing: true
}

// One worker serves three queues: reports hold at most 2 of its 20 places, and of the other two,
// mail starts three jobs where bulk starts one, while both have jobs that are due.
func ExampleWorker_queues() {
	ctx, stop := context.WithCancel(context.Background())
	store, end := temporary(ctx)
	defer end()
	w := &dibs.Worker{Store: store, Concurrency: 20, Queues: []dibs.WorkQueue{
		{Name: "mail", Weight: 3},
		{Name: "bulk", Weight: 1},
		{Name: "reports", Weight: 1, Max: 2},
	}}
	dibs.Handle(w, "report", func(ctx context.Context, job *dibs.Job[string]) error {
		defer stop()
		fmt.Println("report on", job.Payload, "from queue", job.Queue)
		return nil
	})
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Queue: "reports", Kind: "report", Payload: "sales"}}); err != nil {
		log.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// report on sales from queue reports
}

// One call takes all jobs that come within a second, 100 at most. Each has an outcome of its own.
func ExampleHandleBatch() {
	ctx, stop := context.WithCancel(context.Background())
	store, end := temporary(ctx)
	defer end()
	jobs := []dibs.NewJob{{Kind: "count", Payload: 1}, {Kind: "count", Payload: 2}, {Kind: "count", Payload: 3}}
	if _, err := store.Enqueue(ctx, jobs); err != nil {
		log.Fatal(err)
	}

	w := &dibs.Worker{Store: store, Concurrency: 100}
	dibs.HandleBatch(w, "count", 100, time.Second, func(ctx context.Context, jobs []*dibs.Job[int]) []error {
		defer stop()
		sum := 0
		for _, job := range jobs {
			sum += job.Payload
		}
		fmt.Println(len(jobs), "jobs, sum", sum)
		return nil // all of them are completed
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 3 jobs, sum 6
}

// Middleware sees the context, the job and the error of every attempt.
func ExampleWorker_Use() {
	ctx, stop := context.WithCancel(context.Background())
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "pack", Payload: 17}}); err != nil {
		log.Fatal(err)
	}

	w := &dibs.Worker{Store: store}
	w.Use(func(next dibs.Handler) dibs.Handler {
		return func(ctx context.Context, job *dibs.RawJob) error {
			fmt.Println("begin", job.Kind)
			err := next(ctx, job)
			fmt.Println("end", job.Kind, err)
			return err
		}
	})
	dibs.Handle(w, "pack", func(ctx context.Context, job *dibs.Job[int]) error {
		defer stop()
		fmt.Println("pack order", job.Payload)
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// begin pack
	// pack order 17
	// end pack <nil>
}

// tenant is the key of the context's value.
type tenant struct{}

// Middleware sees whatever is enqueued, also in transactions, and may change it.
func ExampleEnqueueFunc() {
	ctx := context.WithValue(context.Background(), tenant{}, "acme")
	store, end := temporary(ctx)
	defer end()
	store.Use(func(next dibs.EnqueueFunc) dibs.EnqueueFunc {
		return func(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
			metadata, err := json.Marshal(map[string]any{"tenant": ctx.Value(tenant{})})
			if err != nil {
				return nil, err
			}
			for i := range jobs { // jobs is a copy: the caller's own slice stays as it is
				jobs[i].Metadata = metadata
			}
			return next(ctx, jobs)
		}
	})
	done, err := confirm.Enqueue(ctx, store, Confirmation{17, "ann@example.com"})
	if err != nil {
		log.Fatal(err)
	}
	job, err := store.Get(ctx, done.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(job.Metadata))
	// Output:
	// {"tenant":"acme"}
}
