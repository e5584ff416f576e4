package rowstore

import (
	"cmp"
	"context"
	"time"

	"github.com/dibs-queue/dibs/internal/ticks"
	"github.com/dibs-queue/dibs/internal/wakeups"
)

// While a worker waits, the store looks for other processes' commits every lookEach, or every lookIdle
// if these have brought no work for idleAfter. A look at a SQLite file takes no lock and some ten
// microseconds. To wake up for it costs more: 2 % of a core.
const (
	lookEach  = 15 * time.Millisecond
	lookIdle  = 100 * time.Millisecond
	idleAfter = 10 * time.Second
	// A look that takes long, for example beside many other processes, is followed by a pause that is lookPart
	// times as long, up to lookSeldom. So looks take at most one part in 200 of the time.
	lookPart   = 200
	lookSeldom = 500 * time.Millisecond
)

// bell wakes listeners: at once after this process' enqueues, and at the next look after
// other processes' commits.
type bell struct {
	wakeups.Listeners

	timer         *ticks.Timer                   // runs ticks while somebody listens; nil until Listen is called
	look          func(context.Context) *Session // the function given to Listen, after a look at the inbox
	part          time.Duration                  // lookPart, or Concurrent.LookPart
	listenerAdded chan struct{}                  // receives when a listener was added
	cancel        context.CancelFunc
	stopped       chan struct{}
}

// Listen has the store look, while somebody listens, for what other processes have committed. look returns a session that
// reads, if any may have committed something since the last call, and otherwise nil.
func (s *Store) Listen(look func(context.Context) *Session) {
	b := &s.bell
	if b.part = lookPart; s.concurrent() != nil {
		b.part = cmp.Or(s.concurrent().LookPart, lookPart)
	}
	b.look = func(ctx context.Context) *Session {
		_, _ = s.takeInbox(ctx, 0) // claims report the error
		return look(ctx)
	}
	b.listenerAdded, b.stopped = make(chan struct{}, 1), make(chan struct{})
	b.timer = ticks.NewTimer(context.Background(), s.Tick) // a tick commits, so the next look sets the timer to the next tick
	b.Added = func() {
		select {
		case b.listenerAdded <- struct{}{}:
		default:
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go b.loop(ctx)
}

// Wakeups returns a channel that receives when the queue may have new work.
func (s *Store) Wakeups(queue string) (<-chan struct{}, func()) {
	if s == nil {
		return nil, func() {} // the next call of a method that can fail says so
	}
	return s.bell.Add(queue)
}

// Wake tells waiting workers of this process that queues may have new work.
func (s *Store) Wake(queues ...string) {
	if s != nil {
		s.bell.Wake(queues...)
	}
}

func (b *bell) close() {
	if b.timer == nil {
		return
	}
	b.timer.Stop()
	b.cancel()
	<-b.stopped
}

func (b *bell) loop(ctx context.Context) {
	defer close(b.stopped)
	timer := time.NewTimer(lookEach)
	defer timer.Stop()
	worked := time.Now()
	for {
		if len(b.Queues()) == 0 {
			select {
			case <-b.listenerAdded:
			case <-ctx.Done():
				return
			}
			continue
		}
		select {
		case began := <-timer.C:
			if session := b.look(ctx); session != nil && b.wakeDue(session) {
				worked = time.Now()
			}
			pause := lookEach
			if time.Since(worked) > idleAfter {
				pause = lookIdle
			}
			timer.Reset(min(max(pause, b.part*time.Since(began)), lookSeldom))
		case <-ctx.Done():
			return
		}
	}
}

// wakeDue wakes the listeners of queues with due jobs, and reports whether there are any. It also sets the timer of
// schedules, which may have changed. It ignores errors, since claims report them.
func (b *bell) wakeDue(session *Session) bool {
	now := session.dialect.Now()
	ready, err := session.dueQueues(b.Queues(), now.UnixMicro(), nil)
	if err == nil {
		b.Wake(ready...)
	}
	switch next, found, err := session.nextTick(); {
	case err != nil: // the next look sets the timer
	case found:
		b.timer.Set(max(next.Sub(now), 0))
	default:
		b.timer.Unset()
	}
	return len(ready) > 0
}
