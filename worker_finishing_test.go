package dibs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/pgtest"
)

// While a handler's own transaction finishes its job, nobody else can take the job,
// so the handler is left alone even after its lease has ended. If the transaction is rolled
// back then, the handler is told that it has lost the job.
func TestAHandlerThatFinishesPastItsLease(t *testing.T) {
	t.Parallel()
	rollback := errors.New("rolled back")
	for name, end := range map[string]error{"and commits": nil, "and rolls back": rollback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := database(t, migrated(t, pgtest.URL(t)))
			finished := make(chan dibs.Attempt, 1)
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
				select {
				case finished <- a:
				default: // it runs again
				}
			}
			stop := run(t, w)
			id := enqueue(t, db, plain(1)...)[0]
			a := await(t, finished, "the attempt")
			if end != nil {
				if !errors.Is(a.NotWritten, dibs.ErrLeaseLost) {
					t.Errorf("rolled back past its lease, it was not told so: %+v", a)
				}
			} else if job := get(t, db, id); job.State != dibs.Completed || job.Attempt != 1 || a.NotWritten != nil {
				t.Errorf("job is %s after %d attempts: %+v", job.State, job.Attempt, a)
			}
			stopped(t, stop)
		})
	}
}
