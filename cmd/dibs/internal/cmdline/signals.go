package cmdline

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dibs-queue/dibs/internal/open"
)

func (a *App) Logger(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	o := &slog.HandlerOptions{Level: level}
	if a.JSON {
		o.ReplaceAttr = func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Value.Kind() == slog.KindDuration {
				attr.Value = slog.Float64Value(attr.Value.Duration().Seconds())
			}
			return attr
		}
		return slog.New(slog.NewJSONHandler(a.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, o))
}

// SetLog has a store that reports things by itself do so in the command's log.
func SetLog(db any, log *slog.Logger) {
	if s, ok := db.(interface{ SetLog(log *slog.Logger) }); ok {
		s.SetLog(log)
	}
}

// hint is the advice of an error, for the log.
func hint(err error) []any {
	var e *open.Error
	if errors.As(err, &e) && e.Next != "" {
		return []any{"hint", e.Next}
	}
	return nil
}

// LogDatabase names the database, which may not be the one that was meant: a worker would wait
// for ever in an empty one.
func (a *App) LogDatabase(log *slog.Logger) {
	text := "opened the database"
	if a.newFile {
		text = "made a new database"
	}
	log.Info(text, "database", open.Absolute(a.URL()).String())
}

// ErrSecondSignal is why a process did not wait for what it had begun.
var ErrSecondSignal = errors.New("stopped by a second signal")

// endingSignals are the signals that end dibs. A process that was started with SIGHUP ignored, as
// nohup does, goes on ignoring it: to listen for the signal would undo that.
func endingSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// SecondSignal calls stop at the second of the signals that end dibs, in a goroutine that ends with
// ctx. The first one ends the command's context. Some programs signal a process and then its
// group, as timeout(1) does: the same signal within half a second counts as one.
func SecondSignal(ctx context.Context, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, endingSignals()...)
	go func() {
		defer signal.Stop(signals)
		var last os.Signal
		var at time.Time
		for n := 0; n < 2; {
			select {
			case s := <-signals:
				if s != last || time.Since(at) > 500*time.Millisecond {
					n++
				}
				last, at = s, time.Now()
			case <-ctx.Done():
				return
			}
		}
		stop()
	}()
}
