package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/wakeups"
)

// bell tells waiting workers of this process, and through NOTIFY those of others, that a
// queue may have new work. All transactions with a NOTIFY commit one after the other, under
// one lock, so few enqueues send one themselves (mayTell, tellOthers). For the others a
// goroutine sends it afterwards, in a transaction that need not be durable, and then pauses
// for a few times as long as that took. So a NOTIFY takes only a small part of the time,
// whatever the load, and a busy server gets fewer of them. This process ignores its own
// notifications.
type bell struct {
	s    *Store
	name string // sent in each NOTIFY, so that the store recognizes its own

	log        *slog.Logger  // nil: slog.Default()
	signOfLife time.Duration // how long the listener waits for a notification before it asks whether the server is there

	wakeups.Listeners // the waiting workers of this process

	mu             sync.Mutex
	listening      bool
	ringing        bool                 // the notifier goroutine runs
	pending        map[string]bool      // queues to notify
	toldAt         time.Time            // when an enqueue last notified other processes itself
	roomNotifiedAt map[string]time.Time // for each queue, when the last or next NOTIFY is sent only because finished jobs left room
}

const (
	notifyPause    = 4 // the pause after a NOTIFY is this many times as long as it took, between leastPause and mostPause
	leastPause     = time.Millisecond
	mostPause      = 5 * time.Millisecond
	tellGap        = time.Millisecond      // shortest time between two enqueues that notify other processes themselves
	roomPause      = 10 * time.Millisecond // shortest time between two NOTIFY for the room that finished jobs leave
	notifyTimeout  = time.Second           // a NOTIFY may take no longer
	relisten       = time.Second
	signOfLife     = 30 * time.Second
	answerTime     = 10 * time.Second     // how long the server may take to answer that it is there
	maxNamedQueues = 100                  // with more queues to wake, one NOTIFY wakes all
	reclaimPause   = 5 * time.Millisecond // time until the next claim if there is no LISTEN, or if another claim had the turn
)

// fromNewQueue is the first word of a NOTIFY that a SQL function sends for a queue without
// settings, or for one that is not marked as grouped.
const fromNewQueue = "new"

func newBell(s *Store) *bell {
	b := &bell{s: s, name: rand.Text(), signOfLife: signOfLife, pending: map[string]bool{}, roomNotifiedAt: map[string]time.Time{}}
	b.Added = b.startListening
	return b
}

// Wake implements admin.Database.
func (s *Store) Wake(queue string) {
	if s == nil || s.bell == nil {
		return
	}
	queue = cmp.Or(queue, dibs.DefaultQueue)
	s.bell.Listeners.Wake(queue)
	s.bell.notify(queue)
}

// Wakeups implements dibs.Store.
func (s *Store) Wakeups(queue string) (<-chan struct{}, func()) {
	if s == nil || s.bell == nil {
		return nil, func() {} // a nil store: the next call that can return an error says so
	}
	s.tends.Store(true)
	return s.bell.Add(queue)
}

// startListening begins to listen for the notifications of other processes, unless the store does already.
func (b *bell) startListening() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.listening && !b.s.o.Pooler && b.s.closed.Err() == nil {
		b.listening = true
		b.s.goroutines.Go(b.listen)
	}
}

// notify has the goroutine send notify other processes.
func (b *bell) notify(queue string) {
	if b.s.o.Pooler {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending[queue] = true
	if !b.ringing && b.s.closed.Err() == nil {
		b.ringing = true
		b.s.goroutines.Go(b.send)
	}
}

// madeRoom wakes workers because finished jobs have left room under a limit. Workers of this
// process take the room at once; other processes are notified less often than for new jobs.
func (b *bell) madeRoom(queue string) {
	b.Wake(queue)
	b.mu.Lock()
	defer b.mu.Unlock()
	now, last := time.Now(), b.roomNotifiedAt[queue]
	if last.After(now) || b.s.o.Pooler || b.s.closed.Err() != nil {
		return
	}
	wait := max(0, last.Add(roomPause).Sub(now))
	b.roomNotifiedAt[queue] = now.Add(wait)
	makeRoom(b.roomNotifiedAt)
	b.s.goroutines.Go(func() {
		select {
		case <-time.After(wait):
			b.notify(queue)
		case <-b.s.closed.Done():
			b.sendNotify([]string{queue})
		}
	})
}

// send notifies the pending queues until none is left.
func (b *bell) send() {
	for {
		b.mu.Lock()
		queues := make([]string, 0, len(b.pending))
		for q := range b.pending {
			queues = append(queues, q)
		}
		clear(b.pending)
		b.ringing = len(queues) > 0
		b.mu.Unlock()
		if len(queues) == 0 {
			return
		}
		start := time.Now()
		b.sendNotify(queues)
		select {
		case <-time.After(min(max(notifyPause*time.Since(start), leastPause), mostPause)):
		case <-b.s.closed.Done(): // the store is being closed: send the rest without a pause
		}
	}
}

// mayTell reports whether an enqueue may notify other processes itself: at most once every
// tellGap, and never through a pooler, behind which nobody listens.
func (b *bell) mayTell() bool {
	if b.s.o.Pooler {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.toldAt) < tellGap {
		return false
	}
	b.toldAt = now
	return true
}

func (b *bell) lockKey() int64 { return lockKey(b.s.o.schema(), "tell") }

// named lists the queues to name in a NOTIFY.
func named(queues []string) []string {
	if len(queues) > maxNamedQueues {
		return []string{wakeups.All}
	}
	return queues
}

// tellOthers notifies other processes in an enqueue's own transaction, unless another enqueue is
// doing so. Without that condition the commits of enqueues would wait for each other; with it, an
// enqueue waits at most for a NOTIFY that is no enqueue's.
var tellOthers = qualify.Text("select pg_notify($1, $2 || ' ' || q) from unnest($3::text[]) q where pg_try_advisory_xact_lock($4)")

var notify = qualify.Text("select set_config('synchronous_commit', 'off', true), pg_notify($1, $2 || ' ' || q) from unnest($3::text[]) q")

// sendNotify sends a NOTIFY, even while the store is being closed: many programs enqueue and end.
// An error may be ignored, since workers poll too.
func (b *bell) sendNotify(queues []string) {
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	_ = b.s.upkeep.run(ctx, step{sql: notify, args: []any{b.channel(), b.name, named(queues)}})
}

// channel is the schema's channel, cut to the length at which the server cuts names: it refuses to
// notify a longer one. Schemas that differ only after that share the channel, and wake each other's
// workers for nothing.
func (b *bell) channel() string {
	name := "dibs:" + b.s.o.schema()
	return name[:min(len(name), 63)]
}

// addNewQueues makes new queues. An error may be ignored: sweeps do the same, and report it.
func (b *bell) addNewQueues(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	_ = b.s.addNewQueues(ctx, wakeups.All)
}

// SetLog sets the log in which the store says that the connection that listens for wake-ups was lost, and that there is a
// new one; by default it is slog.Default(). Call it before the store is used.
func (s *Store) SetLog(log *slog.Logger) {
	if s != nil && s.bell != nil { // a nil store: the next call that can return an error says so
		s.bell.log = log
	}
}

// listen keeps one connection listening until the store is closed.
func (b *bell) listen() {
	lost := false
	for b.s.closed.Err() == nil {
		if ctx, end, ok := b.s.listenContext(); ok {
			err := b.listenOnce(ctx, func() {
				if lost {
					b.logger().Info("listening for wake-ups again")
				}
				lost = false
			})
			if ctx.Err() == nil && !lost {
				b.logger().Warn("the connection that listens for wake-ups has ended or fallen silent; until there is a new one, workers find jobs by polling", "error", inOneSentence(err))
				lost = true
			}
			end()
			b.s.queues.forgetMarks() // the new connection may lead to another server
		}
		select {
		case <-time.After(relisten):
		case <-b.s.closed.Done():
		}
	}
}

func (b *bell) logger() *slog.Logger {
	if b.log == nil {
		return slog.Default()
	}
	return b.log
}

// listenOnce listens over one connection until that is lost. It calls listens once the connection listens.
func (b *bell) listenOnce(ctx context.Context, listens func()) error {
	conn, err := pgx.ConnectConfig(ctx, b.s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relisten)
		defer cancel()
		_ = conn.Close(ctx) // closed with a deadline, as the connection may have fallen silent
	}()
	if _, err := conn.Exec(ctx, "listen "+ident(b.channel())); err != nil {
		return err
	}
	listens()
	b.Wake(b.Queues()...) // a NOTIFY may have come while no connection listened
	for {
		n, err := b.next(ctx, conn)
		if err != nil {
			return err
		}
		// A notification of this store is skipped: its workers are awake already, and a wakeup would cost an empty
		// claim.
		from, queue, _ := strings.Cut(n.Payload, " ")
		if from == fromNewQueue {
			b.Notified(wakeups.All, func() { b.addNewQueues(ctx) })
		}
		switch {
		case from == b.name:
		case queue == wakeups.All:
			for _, q := range b.Queues() {
				b.Notified(q, func() { b.Wake(q) })
			}
		default:
			b.Notified(queue, func() { b.Wake(queue) })
		}
	}
}

// next waits for a notification. A connection can fall silent without an error, for example when a firewall has
// forgotten it. So if nothing comes for a while, next asks the server whether it is there.
func (b *bell) next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, b.signOfLife)
		n, err := conn.WaitForNotification(quiet)
		cancel()
		if err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
			return n, err
		}
		answer, cancel := context.WithTimeout(ctx, min(b.signOfLife, answerTime))
		err = conn.Ping(answer)
		cancel()
		if err != nil {
			return nil, err
		}
	}
}
