package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dibs-queue/dibs"
)

// receipt is what the bank answers.
type receipt struct {
	Number string `json:"number"`
}

// The first attempt fails after the charge. The second one gets the receipt, and does not charge again.
func ExampleStep() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "order", Payload: "ann"}}); err != nil {
		log.Fatal(err)
	}
	charge := func(_ context.Context, customer, key string) (receipt, error) {
		fmt.Println("charging", customer, key)
		return receipt{"R-1"}, nil
	}

	ctx, stop := context.WithCancel(ctx)
	worker := &dibs.Worker{Store: store}
	dibs.Handle(worker, "order", func(ctx context.Context, job *dibs.Job[string]) error {
		paid, err := dibs.Step(ctx, job, "charge", func(ctx context.Context) (receipt, error) {
			return charge(ctx, job.Payload, fmt.Sprintf("order-%d-charge", job.ID))
		})
		if err != nil {
			return err
		}
		if job.Attempt == 1 {
			return dibs.RetryAfter(time.Millisecond, errors.New("the mail server is away"))
		}
		fmt.Println("mailing", paid.Number)
		stop()
		return nil
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// charging ann order-1-charge
	// mailing R-1
}

// The booking and the step are written in one transaction: both happen once, or neither has happened yet.
func ExampleStepIn() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	if _, err := store.DB().ExecContext(ctx, "create table booking (job integer, seat text)"); err != nil {
		log.Fatal(err)
	}
	if _, err := store.Enqueue(ctx, []dibs.NewJob{{Kind: "book", Payload: "12A"}}); err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(ctx)
	worker := &dibs.Worker{Store: store}
	dibs.Handle(worker, "book", func(ctx context.Context, job *dibs.Job[string]) error {
		tx, err := store.DB().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		seat, err := dibs.StepIn(ctx, store.SQLTx(tx), job, "book", func(ctx context.Context) (string, error) {
			_, err := tx.ExecContext(ctx, "insert into booking (job, seat) values (?, ?)", job.ID, job.Payload)
			return job.Payload, err
		})
		if err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		if job.Attempt == 1 {
			return dibs.RetryAfter(time.Millisecond, errors.New("the ticket printer is out of paper"))
		}
		fmt.Println("printing the ticket of seat", seat)
		stop()
		return nil
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	var bookings int
	if err := store.DB().QueryRow("select count(*) from booking").Scan(&bookings); err != nil {
		log.Fatal(err)
	}
	fmt.Println("bookings:", bookings)
	// Output:
	// printing the ticket of seat 12A
	// bookings: 1
}
