package dibs_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// A handler that hangs keeps its job for ever. Without a JobTimeout the log says so after 10
// leases, after 100 and so on.
func TestAHandlerThatRunsForLongIsLogged(t *testing.T) {
	needs.Race(t)
	for _, c := range []struct {
		leases  int
		timeout time.Duration
		want    int
	}{{9, 0, 0}, {11, 0, 1}, {99, 0, 1}, {101, 0, 2}, {101, 24 * time.Hour, 0}} {
		t.Run(fmt.Sprint(c.leases, " leases, timeout ", c.timeout), func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
				w.JobTimeout = c.timeout
				var log bytes.Buffer // only the worker's goroutine writes it
				w.Hooks.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				stop := run(t, w)
				enqueue(t, m, plain(1)...)
				time.Sleep(time.Duration(c.leases) * m.lease)
				synctest.Wait()
				n := strings.Count(log.String(), "runs for long")
				stopped(t, stop)
				if n != c.want {
					t.Errorf("logged %d times, want %d:\n%s", n, c.want, log.String())
				}
			})
		})
	}
}
