package dibs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// While a handler's own transaction finishes its job, no other worker can take the job, so
// the handler may go on after its lease has ended. If it then rolls the transaction back,
// it learns that the job is lost.
func TestAHandlerThatFinishesPastItsLease(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	rollback := errors.New("rolled back")
	for name, end := range map[string]error{"and commits": nil, "and rolls back": rollback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := database(t, migrated(t, pgtest.URL(t)))
			finished := make(chan dibs.Attempt, 1)
			var pastLease atomic.Int32 // the attempt that was; on a slow machine others may lose their lease before
			w := quiet(db, func(ctx context.Context, job *dibs.RawJob) error {
				err := db.InTx(ctx, func(tx dibs.Tx) error {
					if err := tx.Finish(ctx, []dibs.Outcome{job.Lease().Complete(nil)}); err != nil {
						return err
					}
					for { // past the lease, on the database's clock, which is this machine's
						if err := ctx.Err(); err != nil {
							return context.Cause(ctx)
						}
						if time.Since(job.LeaseUntil) > time.Second {
							pastLease.Store(int32(job.Attempt))
							return end
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
				if errors.Is(err, rollback) {
					err = untilEnd(ctx, job)
				}
				if err != nil {
					return err
				}
				return dibs.ErrFinished
			})
			w.Lease = time.Second
			w.Hooks.Finished = func(a dibs.Attempt) {
				if int32(a.Job.Attempt) == pastLease.Load() {
					finished <- a
				}
			}
			stop := run(t, w)
			id := enqueue(t, db, plain(1)...)[0]
			a := await(t, finished, "the attempt")
			if end != nil {
				if !errors.Is(a.NotWritten, dibs.ErrLeaseLost) {
					t.Errorf("rolled back past its lease, it was not told so: %+v", a)
				}
			} else if job := get(t, db, id); job.State != dibs.Completed || job.Attempt != a.Job.Attempt || a.NotWritten != nil {
				t.Errorf("job is %s after %d attempts: %+v", job.State, job.Attempt, a)
			}
			stopped(t, stop)
		})
	}
}

// blocking is a store whose first calls of Finish, remaining of them, find the rows locked.
type blocking struct {
	enqueuer
	remaining atomic.Int32
}

func (b *blocking) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if b.remaining.Add(-1) >= 0 {
		var ids []int64
		for _, o := range outcomes {
			ids = append(ids, o.ID)
		}
		return &dibs.FinishError{Unwritten: ids, Err: errors.New("locked by another")}
	}
	return b.enqueuer.Finish(ctx, outcomes)
}

// A lock that is gone at the next attempt is not logged; one that stays is, once.
func TestALockThatPassesIsNoWarning(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for times, warnings := range map[int32]int{3: 0, 30: 1} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			t.Parallel()
			store := &blocking{enqueuer: database(t, "sqlite:"+filepath.Join(t.TempDir(), "q.db"))}
			store.remaining.Store(times)
			enqueue(t, store, plain(1)...)
			var log bytes.Buffer
			finished, failures := make(chan dibs.Attempt, 1), 0
			w := quiet(store, func(context.Context, *dibs.RawJob) error { return nil })
			w.Lease = time.Minute
			w.Hooks.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			w.Hooks.Finished = func(a dibs.Attempt) { finished <- a }
			w.Hooks.Error = func(string, error) { failures++ }
			stop := run(t, w)
			if a := await(t, finished, "the outcome to be written"); a.NotWritten != nil {
				t.Error(a.NotWritten)
			}
			stopped(t, stop)
			if got := strings.Count(log.String(), "level=WARN"); got != warnings || failures != int(times) {
				t.Errorf("%d warnings, not %d, and %d calls of the hook, not %d:\n%s", got, warnings, failures, times, &log)
			}
		})
	}
}
