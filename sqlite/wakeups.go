package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
	"github.com/dibs-queue/dibs/internal/ticks"
	"github.com/dibs-queue/dibs/internal/wakeups"
)

// While a worker waits, the store looks for other processes' commits every lookEach, and
// every lookIdle once they have brought no work for idleAfter. A look takes no lock and some
// ten microseconds; waking up for it costs more, 2 % of a core.
const (
	lookEach  = 15 * time.Millisecond
	lookIdle  = 100 * time.Millisecond
	idleAfter = 10 * time.Second
	// A look that takes long, as beside many other processes, is followed by a pause lookPart times as long, up to
	// lookSeldom: looks take a two-hundredth of the time at most.
	lookPart   = 200
	lookSeldom = 500 * time.Millisecond
)

// Wakeups returns a channel that receives when the queue may have new work.
func (s *Store) Wakeups(queue string) (<-chan struct{}, func()) {
	if s == nil || s.wakeups == nil {
		return nil, func() {} // the next call of a method that can fail says so
	}
	return s.wakeups.Add(queue)
}

// Wake tells waiting workers of this process that the queue may have new work; those
// of other processes see the commit by themselves.
func (s *Store) Wake(queue string) {
	if s != nil && s.wakeups != nil {
		s.wakeups.Wake(cmp.Or(queue, dibs.DefaultQueue))
	}
}

// watcher wakes listeners at once after this process' enqueues, and after other processes'
// commits when it next looks.
type watcher struct {
	wakeups.Listeners

	timer         *ticks.Timer // set to the next tick of a schedule
	readers       *sql.DB
	text          *statements
	session       *rowstore.Session // reads on conn
	conn          *sql.Conn         // nil until somebody listens
	prepared      *prepared
	listenerAdded chan struct{} // receives when a listener has come
	ctx           context.Context
	cancel        context.CancelFunc
	stopped       chan struct{}
}

func startWakeups(readers *sql.DB, text *statements, timer *ticks.Timer) *watcher {
	w := &watcher{
		timer: timer, readers: readers, text: text, listenerAdded: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.Added = func() {
		select {
		case w.listenerAdded <- struct{}{}:
		default:
		}
	}
	go w.loop()
	return w
}

func (w *watcher) close() {
	w.cancel()
	<-w.stopped
	if w.conn != nil {
		_ = errors.Join(w.prepared.close(), w.conn.Close()) // it only reads
	}
}

func (w *watcher) loop() {
	defer close(w.stopped)
	timer := time.NewTimer(lookEach)
	defer timer.Stop()
	last, worked := int64(-1), time.Now()
	for {
		if len(w.Queues()) == 0 {
			select {
			case <-w.listenerAdded:
			case <-w.ctx.Done():
				return
			}
			continue
		}
		select {
		case began := <-timer.C:
			var work bool
			if last, work = w.look(last); work {
				worked = time.Now()
			}
			pause := lookEach
			if time.Since(worked) > idleAfter {
				pause = lookIdle
			}
			timer.Reset(min(max(pause, lookPart*time.Since(began)), lookSeldom))
		case <-w.ctx.Done():
			return
		}
	}
}

// look wakes the listeners of queues that have due jobs, if another connection has committed
// since the last look, and reports whether any queue has. It sets the timer for the schedules,
// which may have changed too. It ignores errors: claims report them.
func (w *watcher) look(last int64) (version int64, work bool) {
	if !w.connected() {
		return last, false
	}
	err := scan(context.Background(), w.prepared, "pragma data_version", &version)
	if err != nil || version == last {
		return last, false
	}
	ready, err := w.session.DueQueues(w.Queues(), time.Now().UnixMicro(), nil)
	if err == nil {
		w.Wake(ready...)
	}
	w.setTimer()
	return version, len(ready) > 0
}

// connected opens the connection if there is none yet.
func (w *watcher) connected() bool {
	if w.conn == nil {
		conn, err := w.readers.Conn(w.ctx)
		if err != nil {
			return false
		}
		w.conn, w.prepared = conn, newPrepared(conn)
		w.session = rowstore.NewSession(context.Background(), w.prepared, &w.text.Dialect)
	}
	return true
}

// setTimer sets the timer to the next tick of a schedule.
func (w *watcher) setTimer() {
	switch next, found, err := w.session.NextTick(); {
	case err != nil: // the next look sets it
	case found:
		w.timer.Set(max(time.Until(next), 0))
	default:
		w.timer.Unset()
	}
}
