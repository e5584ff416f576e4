package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// bell tells waiting workers of this process, and through NOTIFY those of others,
// that a queue may have new work. NOTIFY takes a lock at its commit that all
// transactions with a NOTIFY share, so it is never part of an enqueue: a goroutine
// sends it afterwards, in a transaction that need not be durable, and then pauses for
// a few times as long as that took: NOTIFY takes a small part of the time, whatever the
// load, and a busy server has fewer of them. This process' listener passes over its own.
type bell struct {
	s    *Store
	name string // says of a NOTIFY that it is this store's

	mu        sync.Mutex
	ears      map[string]map[chan struct{}]bool // by queue
	listening bool
	ringing   bool                 // the notifier goroutine runs
	pending   map[string]bool      // queues to notify
	freed     map[string]time.Time // when that is next, or was last, for room alone
}

const (
	notifyPause = 4 // times as long as a NOTIFY took, within these
	leastPause  = time.Millisecond
	mostPause   = 5 * time.Millisecond
	freedPause  = 10 * time.Millisecond // between those for the room that finished jobs leave
	tellTime    = time.Second           // is the most that a NOTIFY may take
	relisten    = time.Second
	namedWakes  = 100                  // queues in one NOTIFY each; more are woken by one that is for all
	lookAgain   = 5 * time.Millisecond // after a claim that found jobs without LISTEN, or found another at it
)

// allQueues is no queue's name.
const allQueues = ""

func newBell(s *Store) *bell {
	return &bell{s: s, name: rand.Text(), ears: map[string]map[chan struct{}]bool{}, pending: map[string]bool{}, freed: map[string]time.Time{}}
}

// Wake implements dibs.Database.
func (s *Store) Wake(queue string) {
	if s == nil || s.bell == nil {
		return
	}
	queue = cmp.Or(queue, dibs.DefaultQueue)
	s.bell.ring(queue)
	s.bell.notify(queue)
}

// Wakeups implements dibs.Store.
func (s *Store) Wakeups(queue string) (<-chan struct{}, func()) {
	if s == nil || s.bell == nil {
		return nil, func() {} // the first call that can fail says that the store is not open
	}
	b, ear := s.bell, make(chan struct{}, 1)
	queue = cmp.Or(queue, dibs.DefaultQueue)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ears[queue] == nil {
		b.ears[queue] = map[chan struct{}]bool{}
	}
	b.ears[queue][ear] = true
	if !b.listening && !s.o.Pooler && s.closed.Err() == nil {
		b.listening = true
		s.work.Go(b.listen)
	}
	return ear, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.ears[queue], ear)
	}
}

// ring wakes this process.
func (b *bell) ring(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ear := range b.ears[queue] {
		select {
		case ear <- struct{}{}:
		default: // it has a signal that it has not taken yet
		}
	}
}

// notify wakes other processes soon.
func (b *bell) notify(queue string) {
	if b.s.o.Pooler {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending[queue] = true
	if !b.ringing && b.s.closed.Err() == nil {
		b.ringing = true
		b.s.work.Go(b.send)
	}
}

// madeRoom wakes for the room that finished jobs have left. Workers of this process fill
// it at once; those of others hear of it less often than of new jobs.
func (b *bell) madeRoom(queue string) {
	b.ring(queue)
	b.mu.Lock()
	defer b.mu.Unlock()
	now, last := time.Now(), b.freed[queue]
	if last.After(now) || b.s.o.Pooler || b.s.closed.Err() != nil {
		return
	}
	wait := max(0, last.Add(freedPause).Sub(now))
	b.freed[queue] = now.Add(wait)
	b.s.work.Go(func() {
		select {
		case <-time.After(wait):
			b.notify(queue)
		case <-b.s.closed.Done():
			b.tell([]string{queue})
		}
	})
}

// again has this process' workers claim again.
func (b *bell) again(queue string, after time.Duration) {
	time.AfterFunc(after, func() { b.ring(queue) })
}

// send notifies what is pending, again and again until nothing is.
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
		b.tell(queues)
		select {
		case <-time.After(min(max(notifyPause*time.Since(start), leastPause), mostPause)):
		case <-b.s.closed.Done(): // the rest without a pause
		}
	}
}

var notify = qualify.Text("select set_config('synchronous_commit', 'off', true), pg_notify($1, $2 || ' ' || q) from unnest($3::text[]) q")

// tell sends a NOTIFY, also while the store is being closed: many programs enqueue and end.
// A failure is no loss: claimers poll too.
func (b *bell) tell(queues []string) {
	if len(queues) > namedWakes {
		queues = []string{allQueues}
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	_ = b.s.upkeep.run(ctx, step{
		sql:  notify,
		args: []any{b.channel(), b.name, queues},
	})
}

func (b *bell) channel() string { return "dibs:" + b.s.o.schema() }

// listen keeps one connection listening until the store is closed.
func (b *bell) listen() {
	for b.s.closed.Err() == nil {
		if ctx, end, ok := b.s.listening(); ok {
			_ = b.listenOnce(ctx) // polling bridges the time without
			end()
		}
		select {
		case <-time.After(relisten):
		case <-b.s.closed.Done():
		}
	}
}

func (b *bell) listenOnce(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, b.s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "listen "+ident(b.channel())); err != nil {
		return err
	}
	b.ringAll()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		// To be told twice would cost this process a claim that finds nothing.
		switch from, queue, _ := strings.Cut(n.Payload, " "); {
		case from == b.name:
		case queue == allQueues:
			b.ringAll()
		default:
			b.ring(queue)
		}
	}
}

// ringAll wakes everybody: what was enqueued while nobody listened was not heard.
func (b *bell) ringAll() {
	b.mu.Lock()
	queues := make([]string, 0, len(b.ears))
	for q := range b.ears {
		queues = append(queues, q)
	}
	b.mu.Unlock()
	for _, q := range queues {
		b.ring(q)
	}
}
