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
	if s == nil || s.bell == nil {
		return nil, func() {} // the next call of a method that can fail says so
	}
	return s.bell.Add(queue)
}

// Wake tells waiting workers of this process that the queue may have new work; those
// of other processes see the commit by themselves.
func (s *Store) Wake(queue string) {
	if s != nil && s.bell != nil {
		s.bell.Wake(cmp.Or(queue, dibs.DefaultQueue))
	}
}

// bell wakes listeners at once after this process' enqueues, and after other processes'
// commits when it next looks.
type bell struct {
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

func newBell(readers *sql.DB, text *statements, timer *ticks.Timer) *bell {
	b := &bell{
		timer: timer, readers: readers, text: text, listenerAdded: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.Added = func() {
		select {
		case b.listenerAdded <- struct{}{}:
		default:
		}
	}
	go b.loop()
	return b
}

func (b *bell) close() {
	b.cancel()
	<-b.stopped
	if b.conn != nil {
		_ = errors.Join(b.prepared.close(), b.conn.Close()) // it only reads
	}
}

func (b *bell) loop() {
	defer close(b.stopped)
	timer := time.NewTimer(lookEach)
	defer timer.Stop()
	last, worked := int64(-1), time.Now()
	for {
		if len(b.Queues()) == 0 {
			select {
			case <-b.listenerAdded:
			case <-b.ctx.Done():
				return
			}
			continue
		}
		select {
		case began := <-timer.C:
			var work bool
			if last, work = b.look(last); work {
				worked = time.Now()
			}
			pause := lookEach
			if time.Since(worked) > idleAfter {
				pause = lookIdle
			}
			timer.Reset(min(max(pause, lookPart*time.Since(began)), lookSeldom))
		case <-b.ctx.Done():
			return
		}
	}
}

// look wakes the listeners of queues that have due jobs, if another connection has committed
// since the last look, and reports whether any queue has. It sets the timer for the schedules,
// which may have changed too. It ignores errors: claims report them.
func (b *bell) look(last int64) (version int64, work bool) {
	if !b.connected() {
		return last, false
	}
	err := scan(context.Background(), b.prepared, "pragma data_version", &version)
	if err != nil || version == last {
		return last, false
	}
	ready, err := b.session.DueQueues(b.Queues(), time.Now().UnixMicro(), nil)
	if err == nil {
		b.Wake(ready...)
	}
	b.setTimer()
	return version, len(ready) > 0
}

// connected opens the connection if there is none yet.
func (b *bell) connected() bool {
	if b.conn == nil {
		conn, err := b.readers.Conn(b.ctx)
		if err != nil {
			return false
		}
		b.conn, b.prepared = conn, newPrepared(conn)
		b.session = rowstore.NewSession(context.Background(), b.prepared, &b.text.Dialect)
	}
	return true
}

// setTimer sets the timer to the next tick of a schedule.
func (b *bell) setTimer() {
	switch next, found, err := b.session.NextTick(); {
	case err != nil: // the next look sets it
	case found:
		b.timer.Set(max(time.Until(next), 0))
	default:
		b.timer.Unset()
	}
}
