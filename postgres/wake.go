package postgres

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
)

// bell tells waiting workers of this process, and through NOTIFY those of others,
// that a queue may have new work. NOTIFY takes a lock at its commit that all
// transactions with a NOTIFY share, so it is never part of an enqueue: a goroutine
// sends it afterwards, at most once per notifyEvery, in a transaction that need not
// be durable.
type bell struct {
	s *Store

	mu        sync.Mutex
	ears      map[string]map[chan struct{}]bool // by queue
	listening bool
	ringing   bool            // the notifier goroutine runs
	pending   map[string]bool // queues to notify
}

const (
	notifyEvery = 5 * time.Millisecond
	relisten    = time.Second
)

func newBell(s *Store) *bell {
	return &bell{s: s, ears: map[string]map[chan struct{}]bool{}, pending: map[string]bool{}}
}

// Wake implements dibs.Database.
func (s *Store) Wake(queue string) {
	queue = cmp.Or(queue, dibs.DefaultQueue)
	s.bell.ring(queue)
	s.bell.notify(queue)
}

// Wakeups implements dibs.Store.
func (s *Store) Wakeups(queue string) (<-chan struct{}, func()) {
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
		// A failure is no loss: claimers poll too.
		_ = b.s.upkeep.run(
			b.s.closed,
			step{sql: "select set_config('synchronous_commit', 'off', true)"},
			step{sql: "select pg_notify($1, q) from unnest($2::text[]) q", args: []any{b.channel(), queues}},
		)
		select {
		case <-time.After(notifyEvery):
		case <-b.s.closed.Done():
			return
		}
	}
}

func (b *bell) channel() string { return "dibs:" + b.s.o.schema() }

// listen keeps one connection listening until the store is closed.
func (b *bell) listen() {
	for b.s.closed.Err() == nil {
		_ = b.listenOnce(b.s.closed) // polling bridges the time without
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
		b.ring(n.Payload)
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
