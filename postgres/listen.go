package postgres

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dibs-queue/dibs/internal/wakeups"
)

// SetLog sets the log in which the store says that the connection that listens for wake-ups was lost, and that there is a
// new one; by default it is slog.Default(). Call it before the store is used.
func (s *Store) SetLog(log *slog.Logger) {
	if s != nil && s.bell != nil { // the next call of a method that can fail says so
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
			b.s.queues.forgetMarks() // there may be another server now
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

// listenOnce listens over one connection until that ends; it calls listens once it does.
func (b *bell) listenOnce(ctx context.Context, listens func()) error {
	conn, err := pgx.ConnectConfig(ctx, b.s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relisten)
		defer cancel()
		_ = conn.Close(ctx) // the wire may be silent
	}()
	if _, err := conn.Exec(ctx, "listen "+ident(b.channel())); err != nil {
		return err
	}
	listens()
	b.Wake(b.Queues()...) // some NOTIFY may have come while none listened
	for {
		n, err := b.next(ctx, conn)
		if err != nil {
			return err
		}
		// This process' workers are awake already: another wakeup would cost an empty claim.
		from, queue, _ := strings.Cut(n.Payload, " ")
		if from == fromNewQueue {
			b.Hear(wakeups.All, func() { b.addNewQueues(ctx) })
		}
		switch {
		case from == b.name:
		case queue == wakeups.All:
			for _, q := range b.Queues() {
				b.Hear(q, func() { b.Wake(q) })
			}
		default:
			b.Hear(queue, func() { b.Wake(queue) })
		}
	}
}

// next waits for a notification. A wire may fall silent without an error, as when something between has forgotten the
// connection: so where nothing comes for a while, the server is asked whether it is there.
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
