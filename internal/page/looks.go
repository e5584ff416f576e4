package page

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/holdups"
)

// fresh is how old the figures on a page may be. If a look takes long, as to count the rows of a large adopted table
// may, they may be ten times as old as that takes, so that the database spends at most a tenth of its time on looks.
const fresh = time.Second

// look holds what the database said about its queues and workers at one moment.
type look struct {
	at      time.Time
	fresh   time.Duration // how long the look may be shown
	stats   []admin.QueueStats
	queues  []dibs.Queue
	workers []dibs.WorkerInfo
	late    []dibs.Schedule // schedules whose next tick should have had its job
	hour    []admin.Minute  // the last hour of all queues together
	hourAt  time.Time
	table   bool // the database is an adopted table, without a register of workers and a history
	noDead  bool // the adopted table cannot list dead rows, for example without a side table

	holders   holdups.Holders // transactions that lock rows, read if a schedule is late
	holdersAt time.Time
	hangs     map[string]holdups.Hang // queues whose jobs hang
	deaths    map[string]deaths       // the deaths of the last day, by queue
	deathsAt  time.Time
	times     map[string]timesAt // how long the last completed jobs took, by queue
	hours     map[string]hourAt  // each queue's last hour, by its name
	after     map[string]afterAt // how many blocked jobs of a queue come after others, by its name
}

// looks asks the database at most once a second, however many want to know.
type looks struct {
	db     admin.Database
	mu     sync.Mutex
	last   look
	err    error
	asking chan struct{} // closed when the answer to the question under way has come; nil: none is under way
	forgot bool          // something has changed since the question under way was asked
}

// get returns a look that is at most a second old, or as old as fresh allows.
func (l *looks) get(ctx context.Context) (look, error) {
	l.mu.Lock()
	for l.asking != nil {
		wait := l.asking
		l.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return look{}, ctx.Err()
		}
		l.mu.Lock()
	}
	if time.Since(l.last.at) < l.last.fresh {
		defer l.mu.Unlock()
		return l.last, l.err
	}
	done, last := make(chan struct{}), l.last
	l.asking, l.forgot = done, false
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime) // one caller's end must not break it off: others wait for the answer, too
	defer cancel()
	now, err := l.ask(ctx, last)
	if now.fresh = fresh; err == nil {
		now.fresh = max(fresh, 10*time.Since(now.at))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.err, l.asking = now, err, nil
	if l.forgot {
		l.last.at, l.last.deathsAt = time.Time{}, time.Time{}
	}
	close(done)
	return now, err
}

func (l *looks) ask(ctx context.Context, last look) (now look, err error) {
	now.at = time.Now()
	if now.stats, err = l.db.Stats(ctx); err != nil {
		return now, err
	}
	if now.queues, err = l.db.Queues(ctx); err != nil {
		return now, err
	}
	if now.workers, err = l.db.Workers(ctx); errors.Is(err, errors.ErrUnsupported) {
		now.table, now.noDead = true, last.noDead
		if !last.table {
			_, err = l.db.List(ctx, admin.Filter{State: dibs.Dead, Limit: 1})
			now.noDead = errors.Is(err, errors.ErrUnsupported)
		}
		return now, nil
	} else if err != nil {
		return now, err
	}
	if err = now.readLate(ctx, l.db, last); err != nil {
		return now, err
	}
	if now.hour, now.hourAt = last.hour, last.hourAt; now.at.Sub(last.hourAt) >= chartFresh {
		if now.hour, err = l.db.History(ctx, nil, chartTime); err != nil {
			return now, err
		}
		now.hourAt = now.at
	}
	if now.hangs, err = holdups.Hanging(ctx, l.db, holdups.Seen{Stats: now.stats, Queues: now.queues, Workers: now.workers}, false); err != nil {
		return now, err
	}
	if err = now.readDeaths(ctx, l.db, last); err != nil {
		return now, err
	}
	if err = now.readTimes(ctx, l.db, last); err != nil {
		return now, err
	}
	if err = now.readAfter(ctx, l.db, last); err != nil {
		return now, err
	}
	return now, now.readHours(ctx, l.db, last)
}

const (
	holdersFresh  = 10 * time.Second // how old the list of transactions that lock rows may be
	holdersWithin = 2 * time.Second  // how long reading that list may take
)

// readLate reads which schedules are late, and then which transactions lock rows and so may be the cause.
func (now *look) readLate(ctx context.Context, db admin.Database, last look) (err error) {
	if now.late, err = db.Schedules(ctx); err != nil {
		return err
	}
	now.late = slices.DeleteFunc(now.late, func(s dibs.Schedule) bool { return !holdups.Late(s, time.Now()) })
	if now.holders, now.holdersAt = last.holders, last.holdersAt; len(now.late) == 0 || now.at.Sub(last.holdersAt) < holdersFresh {
		return nil
	}
	brief, cancel := context.WithTimeout(ctx, holdersWithin)
	defer cancel()
	now.holders, _ = holdups.ReadHolders(brief, db) // after an error no transaction is named
	now.holdersAt = time.Now()
	return nil
}

// ofTable reports whether the database is known to be an adopted table.
func (l *looks) ofTable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.table
}

// forget makes the next get ask the database, since somebody has changed something.
func (l *looks) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last.at, l.last.deathsAt, l.forgot = time.Time{}, time.Time{}, true
}
