package page

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-queue/dibs/admin"
)

// timesAt says how long the last completed jobs of a queue waited and ran, and when that was read.
type timesAt struct {
	admin.Times
	at time.Time
}

// hourAt is the last hour of a queue as a small chart.
type hourAt struct {
	sparks
	at time.Time
}

// afterAt is how many blocked jobs of a queue come after others, up to FollowersCap, and when that was read.
type afterAt struct {
	n  int64
	at time.Time
}

const (
	// timesAtOnce is the number of queues whose times one look reads; there is one look a second. For each queue the
	// database reads TimesOf entries of an index. If 300 queues are busy, their times are up to 75 s old.
	timesAtOnce = 4
	timesFresh  = 5 * time.Second // how old times may be before they are read again
	// hoursAtOnce is the number of queues whose last hour one look reads. For each queue that takes 61 searches in an
	// index.
	hoursAtOnce = 16
	hoursFresh  = 10 * time.Second
	// afterAtOnce is the number of queues whose blocked jobs one look counts. For each queue the database reads up to
	// FollowersCap entries of an index.
	afterAtOnce = 2
	afterFresh  = 5 * time.Second
)

// readTimes reads the times of a few queues that complete jobs: those whose times are unknown or oldest.
func (now *look) readTimes(ctx context.Context, db admin.Database, last look) error {
	now.times = still(last.times, now.stats)
	for _, queue := range oldest(now.stats, timesAtOnce, func(s admin.QueueStats) (time.Time, bool) {
		known, some := last.times[s.Queue]
		return known.at, s.Completed > 0 && !(some && (now.at.Sub(known.at) < timesFresh || s.Succeeded == 0))
	}) {
		times, err := db.Times(ctx, queue)
		if err != nil {
			return err
		}
		now.times[queue] = timesAt{times, now.at}
	}
	return nil
}

// readAfter counts, in a few queues that have blocked jobs, those that come after others.
func (now *look) readAfter(ctx context.Context, db admin.Database, last look) error {
	now.after = still(last.after, now.stats)
	for _, queue := range oldest(now.stats, afterAtOnce, func(s admin.QueueStats) (time.Time, bool) {
		known := last.after[s.Queue]
		return known.at, s.Blocked > 0 && now.at.Sub(known.at) >= afterFresh
	}) {
		n, err := db.Followers(ctx, queue)
		if err != nil {
			return err
		}
		now.after[queue] = afterAt{int64(n), now.at}
	}
	return nil
}

// readHours reads the last hour of a few queues: those whose last hour is unknown or oldest.
func (now *look) readHours(ctx context.Context, db admin.Database, last look) error {
	now.hours = still(last.hours, now.stats)
	queues := oldest(now.stats, hoursAtOnce, func(s admin.QueueStats) (time.Time, bool) {
		known := last.hours[s.Queue]
		return known.at, now.at.Sub(known.at) >= hoursFresh
	})
	if len(queues) == 0 {
		return nil
	}
	minutes, err := db.History(ctx, queues, chartTime)
	if err != nil {
		return err
	}
	of := map[string][]admin.Minute{}
	for _, m := range minutes {
		of[m.Queue] = append(of[m.Queue], m)
	}
	for _, queue := range queues {
		now.hours[queue] = hourAt{sparksOfHour(of[queue]), now.at}
	}
	return nil
}

// oldest picks n queues whose figures are unknown or oldest. old says when those of a queue were read, and whether they
// must be read again.
func oldest(stats []admin.QueueStats, n int, old func(admin.QueueStats) (known time.Time, due bool)) (queues []string) {
	due := slices.DeleteFunc(slices.Clone(stats), func(s admin.QueueStats) bool {
		_, is := old(s)
		return !is
	})
	slices.SortStableFunc(due, func(a, b admin.QueueStats) int {
		knownA, _ := old(a)
		knownB, _ := old(b)
		return knownA.Compare(knownB)
	})
	for _, s := range due[:min(len(due), n)] {
		queues = append(queues, s.Queue)
	}
	return queues
}

// still copies the values of queues that still exist, so that deleted queues are forgotten.
func still[T any](known map[string]T, stats []admin.QueueStats) map[string]T {
	kept := map[string]T{}
	for _, s := range stats {
		if v, some := known[s.Queue]; some {
			kept[s.Queue] = v
		}
	}
	return kept
}
