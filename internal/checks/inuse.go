package checks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// QueueUses are what keeps a queue from being deleted.
type QueueUses struct {
	Schedule, Worker string    // name of one that uses the queue; empty: none does
	Live, Ended      int64     // a job of the queue that has not ended, and one that has; 0: there is none
	Key              string    // a unique key that is held for a period
	KeyUntil         time.Time // when that period ends; zero: no key is held
}

// UsersOfQueue finds a schedule that enqueues into a queue, and a worker that serves it.
func UsersOfQueue(ctx context.Context, db interface {
	Schedules(ctx context.Context, names ...string) ([]dibs.Schedule, error)
	Workers(ctx context.Context) ([]dibs.WorkerInfo, error)
}, name string,
) (u QueueUses, err error) {
	schedules, err := db.Schedules(ctx)
	if err != nil {
		return u, err
	}
	if i := slices.IndexFunc(schedules, func(s dibs.Schedule) bool { return s.Queue == name }); i >= 0 {
		u.Schedule = schedules[i].Name
	}
	workers, err := db.Workers(ctx)
	if err != nil {
		return u, err
	}
	i := slices.IndexFunc(workers, func(w dibs.WorkerInfo) bool {
		return w.State != dibs.WorkerLost && slices.Contains(w.Queues, name)
	})
	if i >= 0 {
		u.Worker = workers[i].Name
	}
	return u, nil
}

// InUse refuses to delete a queue, with all that has to be done first; it is nil if nothing has.
func (u QueueUses) InUse(name string) error {
	var reasons []string
	if u.Live > 0 {
		reasons = append(reasons, fmt.Sprintf("job %d has not ended: cancel such jobs, or wait until they have ended", u.Live))
	}
	if u.Schedule != "" {
		reasons = append(reasons, fmt.Sprintf("the schedule %.255q enqueues into it: delete that, or give it another queue", u.Schedule))
	}
	if u.Worker != "" {
		reasons = append(reasons, fmt.Sprintf("the worker %.255q serves it: stop that, or start it without this queue", u.Worker))
	}
	if u.Ended > 0 {
		reasons = append(reasons, fmt.Sprintf("it keeps ended jobs, such as job %d: delete it with its ended jobs, or prune these first", u.Ended))
	}
	if !u.KeyUntil.IsZero() {
		reasons = append(reasons, fmt.Sprintf("its unique key %.255q is held until %s: wait, or delete it with its ended jobs, which also frees their keys", u.Key, u.KeyUntil.UTC().Format(time.RFC3339)))
	}
	if len(reasons) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %.255q cannot be deleted: %s", dibs.ErrQueueInUse, name, strings.Join(reasons, "; "))
}

// QueueFilling refuses to delete a queue into which an open transaction enqueues.
func QueueFilling(name string) error {
	return fmt.Errorf("%w: %.255q cannot be deleted: a transaction that enqueues into it is still open, or it is being deleted; try again", dibs.ErrQueueInUse, name)
}

// QueueNames are those of the names that a queue can have, sorted, each once.
func QueueNames(names []string) []string {
	sorted := slices.Sorted(slices.Values(names))
	return slices.DeleteFunc(slices.Compact(sorted), func(name string) bool { return Name("queue", name) != nil })
}

// UnknownQueue says that there is no such queue.
func UnknownQueue(name string) error { return fmt.Errorf("%w %.255q", dibs.ErrUnknownQueue, name) }
