package reads

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// settings are the places of a queue's settings, in the order of the columns of queues.sql and of the parameters that
// store them.
func settings(q *dibs.Queue) []any {
	return []any{
		&q.Name, &q.Paused, &q.Concurrency, &q.GroupLimit, &q.Strict, &q.Order, &q.Lease, &q.MaxAttempts,
		&q.Backoff.Base, &q.Backoff.Factor, &q.Backoff.Max, &q.Backoff.Jitter,
		&q.KeepCompleted, &q.KeepDead, &q.KeepCancelled, &q.PayloadLimit,
		&q.Rate.N, &q.Rate.Per, &q.Rate.Burst, &q.JobTimeout, &q.GroupRate.N, &q.GroupRate.Per, &q.GroupRate.Burst,
	}
}

// Queue is where the values of a row of queues.sql go: the settings of a queue, and more.
func Queue(q *dibs.Queue, more ...any) []any {
	list := settings(q)
	for i, to := range list {
		switch to := to.(type) {
		case *time.Duration:
			list[i] = Duration(to)
		case *dibs.Order:
			list[i] = Text(to)
		}
	}
	return append(list, more...)
}

// Stored are the parameters of a statement that stores a queue's settings: first those given here, then the settings.
func Stored(q dibs.Queue, first ...any) []any {
	list := settings(&q)
	for i, from := range list {
		switch from := from.(type) {
		case *time.Duration:
			list[i] = from.Microseconds()
		case *dibs.Order:
			list[i] = string(*from)
		default:
			list[i] = reflect.ValueOf(from).Elem().Interface()
		}
	}
	return append(first, list...)
}

// Queues lists queues by name with their settings: all, or those of the names that there are.
func (c Calls) Queues(ctx context.Context, names ...string) ([]dibs.Queue, error) {
	if len(names) > 0 {
		names = checks.QueueNames(names) // never nil, which would mean all queues
	}
	return list(ctx, c, "queues", nil, func(q *dibs.Queue) []any { return Queue(q, new(bool)) }, "queues", names)
}

// WindowMinutes is how far back statistics reach, with the minute that has begun.
const WindowMinutes = 6

// Stats counts every queue, by name.
func (c Calls) Stats(ctx context.Context) ([]admin.QueueStats, error) {
	if err := c.Ready(ctx, "stats"); err != nil {
		return nil, err
	}
	var counted []stats
	var holds []held
	err := c.Read(ctx, rows(&counted, (*stats).columns, "stats", admin.ScheduledCap+1, WindowMinutes), rows(&holds, (*held).columns, "held_queues"))
	if err != nil {
		return nil, c.Failed("stats", err)
	}
	all := make([]admin.QueueStats, len(counted))
	for i := range counted {
		all[i] = counted[i].figures()
	}
	for _, h := range holds {
		if i, ok := slices.BinarySearchFunc(all, h.queue, func(q admin.QueueStats, name string) int { return cmp.Compare(q.Queue, name) }); ok {
			all[i].HeldUntil, all[i].HeldGroups = h.until, h.groups
		}
	}
	return all, nil
}

// stats is a row of stats.sql.
type stats struct {
	admin.QueueStats
	wait, run int64 // sums in microseconds
}

func (q *stats) columns() []any {
	return []any{
		&q.Queue, &q.Paused, &q.Waiting, &q.Scheduled, &q.Blocked, &q.Running, &q.Completed, &q.Dead, &q.Cancelled,
		Duration(&q.OldestAge), Duration(&q.Window), &q.Enqueued, &q.Claimed, &q.Succeeded, &q.Failed, &q.wait, &q.run,
	}
}

// figures returns the statistics, with averages and rates computed from the row.
func (q *stats) figures() admin.QueueStats {
	if q.Scheduled > admin.ScheduledCap {
		q.Scheduled, q.ScheduledMore = admin.ScheduledCap, true
	}
	checks.Counts(&q.QueueStats)
	if q.Claimed > 0 {
		q.AvgWait = checks.Micros(q.wait / q.Claimed)
	}
	if n := q.Succeeded + q.Failed; n > 0 {
		q.AvgRun = checks.Micros(q.run / n)
	}
	if q.Window > 0 {
		q.Throughput = float64(q.Succeeded) / q.Window.Seconds()
	}
	return q.QueueStats
}

// held is a row of held_queues.sql: a queue whose jobs are held up by rates.
type held struct {
	queue  string
	until  time.Time
	groups int64
}

func (h *held) columns() []any { return []any{&h.queue, Time(&h.until), &h.groups} }

// Groups lists the groups of a queue that have settings of their own.
func (c Calls) Groups(ctx context.Context, queue string) ([]dibs.Group, error) {
	return list(ctx, c, "groups", checks.Name("queue", queue), group, "group_settings", queue)
}

// Group reads the settings of one group, whether it has any or not.
func (c Calls) Group(ctx context.Context, queue, name string) (dibs.Group, error) {
	list, err := list(ctx, c, "change group", nil, ownGroup, "group_own", queue, name)
	if err != nil {
		return dibs.Group{}, err
	}
	list[0].Name = name
	return list[0], nil
}

func ownGroup(g *dibs.Group) []any {
	return []any{&g.Limit, &g.Rate.N, Duration(&g.Rate.Per), &g.Rate.Burst}
}

func group(g *dibs.Group) []any {
	return []any{&g.Name, &g.Limit, &g.Rate.N, Duration(&g.Rate.Per), &g.Rate.Burst, Time(&g.HeldUntil)}
}

// Backlogs counts the blocked jobs of the groups of a queue that have any.
func (c Calls) Backlogs(ctx context.Context, queue, after string) ([]admin.Backlog, error) {
	return list(ctx, c, "backlogs", checks.Backlogs(queue, after), backlog, "backlog", queue, after, admin.MaxBacklogs, checks.CountedBacklog)
}

func backlog(b *admin.Backlog) []any { return []any{&b.Group, &b.Places, &b.Blocked} }
