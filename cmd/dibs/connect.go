package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs/internal/open"
)

// workConns is the number of connections to PostgreSQL that a worker uses, besides one for
// wake-ups: it can extend its leases while another call waits.
const workConns = 2

// waiting is how a process that stays waits for its server.
type waiting struct {
	log          *slog.Logger
	notListening bool // also where nothing answers yet, as when both are started together
}

const (
	firstWait = 250 * time.Millisecond
	lastWait  = 5 * time.Second
	sayAgain  = time.Minute // how often the log repeats the reason
)

// connect opens the database for a worker, or another process that stays. It waits for a server that has
// no free connection, is starting up, or does not answer yet. If it is told to stop meanwhile, that is no error.
func connect[T interface{ Close() error }](ctx context.Context, w waiting, openOnce func(context.Context) (T, error), do func(T) error) error {
	var said string
	var saidAt time.Time
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		db, err := openOnce(ctx)
		passing := open.Passing(err) || w.notListening && open.Away(err)
		if err == nil || !passing && ctx.Err() == nil {
			return use(db, err, do)
		}
		if text := err.Error(); ctx.Err() == nil && (text != said || time.Since(saidAt) > sayAgain) {
			said, saidAt = text, time.Now()
			w.log.Warn(text+"; trying again until it does", hint(err)...)
		}
		select {
		case <-time.After(time.Duration(float64(wait) * (0.5 + rand.Float64()))): // random, so that not all workers retry at the same moment
		case <-ctx.Done():
			w.log.Info("stopped before the database could be used", "reason", context.Cause(ctx).Error())
			return nil
		}
	}
}

// logDatabase names the database, which may not be the one that was meant: a worker would wait
// for ever in an empty one.
func (a *app) logDatabase(log *slog.Logger) {
	text := "opened the database"
	if a.newFile {
		text = "made a new database"
	}
	log.Info(text, "database", open.Absolute(a.dbURL()).String())
}

// hint is the advice of an error, for the log.
func hint(err error) []any {
	var e *open.Error
	if errors.As(err, &e) && e.Next != "" {
		return []any{"hint", e.Next}
	}
	return nil
}

func (a *app) openToWork(ctx context.Context) (jobTable, error) {
	if a.table != "" {
		return a.openTable(ctx)
	}
	return a.open(ctx)
}

// setLog has a store that reports things by itself do so in the command's log.
func setLog(db any, log *slog.Logger) {
	if s, ok := db.(interface{ SetLog(log *slog.Logger) }); ok {
		s.SetLog(log)
	}
}
