package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
)

// queuesFlag is --queue of 'dibs work', which may be given again.
type queuesFlag []dibs.WorkQueue

func (q *queuesFlag) Type() string { return "QUEUE" }

func (q *queuesFlag) String() string {
	var all []string
	for _, one := range *q {
		all = append(all, one.Name)
	}
	return strings.Join(all, ",")
}

// queueParts are a queue's name, weight and maximum. Names may contain colons.
var queueParts = regexp.MustCompile(`(?s)^(.*?)(?::(\d+))?(?::max=([^:]*))?$`)

func (q *queuesFlag) Set(text string) (err error) {
	parts := queueParts.FindStringSubmatch(text)
	one := dibs.WorkQueue{Name: parts[1]}
	if parts[2] != "" {
		if one.Weight, err = strconv.Atoi(parts[2]); err != nil || one.Weight < 1 || one.Weight > 1000 {
			return fmt.Errorf("the weight must be 1 to 1000, got %s", parts[2])
		}
	}
	if strings.Contains(text[len(parts[1]):], ":max=") {
		if one.Max, err = strconv.Atoi(parts[3]); err != nil || one.Max < 1 {
			return fmt.Errorf("max must be a number from 1, got %q", parts[3])
		}
	}
	*q = append(*q, one)
	return nil
}

// findQueues fills in the queue of an adopted table, or the default one, and checks those that
// are named for a table.
func (f *workFlags) findQueues(ctx context.Context, a *app, db cmdline.JobTable) (err error) {
	if len(f.queues) == 0 {
		f.queues = queuesFlag{{}}
	}
	for i := range f.queues {
		if f.queues[i].Name, err = a.QueueOf(ctx, db, f.queues[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// warnOfQueues warns of queues that do not exist: for a misspelt one it would wait for ever. A
// queue that a schedule names is made by its first tick.
func (f *workFlags) warnOfQueues(ctx context.Context, db cmdline.JobTable, log *slog.Logger) {
	for _, q := range f.queues {
		var unknown *cmdline.HintError
		if err := cmdline.CheckQueue(ctx, db, q.Name); errors.As(err, &unknown) && !scheduled(ctx, db, q.Name) {
			log.Warn("nobody has enqueued into this queue yet", "queue", q.Name, "hint", weightHint(q.Name)+unknown.Next)
		}
	}
}

// scheduled reports whether a schedule enqueues into a queue.
func scheduled(ctx context.Context, db cmdline.JobTable, queue string) bool {
	reader, ok := db.(interface {
		Schedules(ctx context.Context, names ...string) ([]dibs.Schedule, error)
	})
	if !ok { // an adopted table has no schedules
		return false
	}
	list, err := reader.Schedules(ctx)
	return err == nil && slices.ContainsFunc(list, func(s dibs.Schedule) bool { return s.Queue == queue })
}

// weightHint tells how weights are written if a queue's name looks as if it should have one.
func weightHint(queue string) string {
	name, _, colon := strings.Cut(queue, ":")
	if !colon {
		return ""
	}
	return fmt.Sprintf("this is taken as a queue named %q; a weight is written --queue %s:3; ", term.Clip(words.Printable(queue), 60), words.ShellWord(cmp.Or(name, "NAME")))
}

// kindsOrAll are the kinds to handle; "" stands for all.
func (f *workFlags) kindsOrAll() []string {
	if len(f.kinds) == 0 {
		return []string{""}
	}
	return f.kinds
}

// untilEmpty calls stop when all jobs of the queues have ended.
func untilEmpty(ctx context.Context, db cmdline.JobTable, f *workFlags, stop func()) {
	_, _ = db.Sweep(ctx) // jobs that programs have inserted by SQL may become visible only by it; the worker reports an error
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := f.anyLeft(ctx, db)
		if err == nil && !left { // the worker reports a lasting error
			stop()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// anyLeft reports whether one of the queues has jobs of the kinds that have not ended.
func (f *workFlags) anyLeft(ctx context.Context, db cmdline.JobTable) (bool, error) {
	for _, q := range f.queues {
		for _, kind := range f.kindsOrAll() {
			if left, err := anyOf(ctx, db, admin.Filter{Queue: q.Name, Kind: kind, Limit: 1}); left || err != nil {
				return left, err
			}
		}
	}
	return false, nil
}

// anyOf reports whether such a job exists, however many others are before it.
func anyOf(ctx context.Context, db cmdline.JobTable, f admin.Filter) (bool, error) {
	for {
		page, err := db.List(ctx, f)
		if err != nil || len(page.Jobs) > 0 || page.Next == "" {
			return len(page.Jobs) > 0, err
		}
		f.After = page.Next
	}
}
