// Package emails is a handler with its tests, for docs/howto/testing.md.
package emails

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
)

// Welcome is the payload.
type Welcome struct {
	To string `json:"to"`
}

// Send sends one email. Tests put another function in its place.
type Send func(ctx context.Context, to string) error

// ErrNoMailbox and ErrBusy are what a mail server answers.
var (
	ErrNoMailbox = errors.New("no such mailbox")
	ErrBusy      = errors.New("mail server is busy")
)

// Register gives a worker its handlers.
func Register(w *dibs.Worker, send Send) {
	dibs.Handle(w, "welcome", func(ctx context.Context, job *dibs.Job[Welcome]) error {
		switch err := send(ctx, job.Payload.To); {
		case errors.Is(err, ErrNoMailbox):
			return dibs.Die(err)
		case errors.Is(err, ErrBusy):
			return dibs.RetryAfter(time.Minute, err)
		default:
			return err
		}
	})
}

// SignUp enqueues a welcome, once for each address.
func SignUp(ctx context.Context, db dibs.Database, address string) error {
	_, err := db.Enqueue(ctx, []dibs.NewJob{{Kind: "welcome", Payload: Welcome{To: address}, UniqueKey: address}})
	return err
}
