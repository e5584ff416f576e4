package cmdline

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs/internal/open"
)

// Waiting is how a process that stays waits for its server.
type Waiting struct {
	Log          *slog.Logger
	NotListening bool // wait also while nothing listens at the address, as when both are started together
}

const (
	firstWait = 250 * time.Millisecond
	lastWait  = 5 * time.Second
	sayAgain  = time.Minute // how often the log repeats the reason
)

// Connect opens the database for a worker, or another process that stays. It waits for a server that has
// no free connection, is starting up, or does not answer yet. If it is told to stop meanwhile, that is no error.
func Connect[T interface{ Close() error }](ctx context.Context, w Waiting, openOnce func(context.Context) (T, error), do func(T) error) error {
	var said string
	var saidAt time.Time
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		db, err := openOnce(ctx)
		passing := open.Passing(err) || w.NotListening && open.Away(err)
		if err == nil || !passing && ctx.Err() == nil {
			return use(db, err, do)
		}
		if text := err.Error(); ctx.Err() == nil && (text != said || time.Since(saidAt) > sayAgain) {
			said, saidAt = text, time.Now()
			w.Log.Warn(text+"; trying again until it does", hint(err)...)
		}
		select {
		case <-time.After(time.Duration(float64(wait) * (0.5 + rand.Float64()))): // random, so that not all workers retry at the same moment
		case <-ctx.Done():
			w.Log.Info("stopped before the database could be used", "reason", context.Cause(ctx).Error())
			return nil
		}
	}
}
