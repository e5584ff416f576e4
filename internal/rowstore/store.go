// Package rowstore is the part of a store that is the same for databases which read rows in a transaction, decide
// in Go what becomes of them, and write them: what each call checks, reads and writes. An Engine and a Dialect say
// how a database does it.
//
// Where transactions that write come one after the other, as in SQLite, whatever one has read stays true until it ends.
// Elsewhere Concurrent says what keeps it true.
package rowstore

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/rest"
	"github.com/dibs-queue/dibs/internal/waits"
)

// Store has the methods of admin.Database that are the same for all databases. A nil Store refuses all calls.
type Store struct {
	Rests   rest.Claims // exported for tests that make a claim rest
	engine  Engine
	dialect *Dialect
	around  checks.Middleware
	waits   waits.Group
	bell    bell
	inbox   inbox
	// InboxTaken, if not nil, is told what has become of each row of the inbox that this process takes. It is exported for tests.
	InboxTaken func(row int64, done dibs.Enqueued, refused error)

	released, cancelled atomic.Int64   // followers, since the store was opened
	leaving             atomic.Int64   // transactions that have left ended jobs since settleBeside last looked
	beside              sync.WaitGroup // the goroutine of settleBeside, if it runs
	closing             sync.Mutex     // held by Close, and by what starts a goroutine in beside
	closed              context.Context
	close               context.CancelFunc
}

// New makes a store.
func New(e Engine, d *Dialect) *Store {
	s := &Store{engine: e, dialect: d, inbox: inbox{turn: make(chan struct{}, 1)}}
	s.closed, s.close = context.WithCancel(context.Background())
	s.waits.Look = s.Reads().Ended
	return s
}

// Close ends the calls of Wait, the looks of Listen, and the settlements beside other calls. The engine still works
// then.
func (s *Store) Close() {
	if s != nil {
		s.waits.Close()
		s.bell.close()
		s.closing.Lock()
		s.close()
		s.closing.Unlock()
		s.beside.Wait()
	}
}

// ready refuses calls on a store that is nil or closed, or with a nil context.
func (s *Store) ready(ctx context.Context) error {
	if s == nil {
		return NotOpen()
	}
	return s.engine.Ready(ctx)
}

// NotOpen is the error of calls on a store that is nil.
func NotOpen() error {
	return &dibs.InvalidError{Field: "store", Reason: "is not open; use what Open returns, once its error is nil"}
}

// write runs f in a transaction and returns once that is durable. It may run f twice: see Engine.Write.
func (s *Store) write(ctx context.Context, op string, f func(*Session) error) error {
	err := s.ready(ctx)
	tries := 0
	if err == nil && s.concurrent() != nil {
		left, run := false, f
		f = func(tx *Session) error {
			tx.others.again = tries > 1
			err := run(tx)
			left = tx.flows.left
			return err
		}
		defer func() {
			if err == nil && left {
				s.settleLeft(ctx)
			}
		}()
	}
	if err == nil {
		err = s.inTurn(ctx, func() error {
			tries++
			return s.engine.Write(ctx, f)
		})
	}
	return s.wrap(op, err)
}

// patience is how long a call is made again that needs what another transaction holds.
func (s *Store) patience() time.Duration {
	if c := s.concurrent(); c != nil && c.Patience > 0 {
		return c.Patience
	}
	return busyFor
}

// inTurn makes a call again, for a while, if it fails because another transaction holds what it needs.
func (s *Store) inTurn(ctx context.Context, call func() error) error {
	for began := time.Now(); ; time.Sleep(rand.N(busyPause)) {
		err := call()
		if !errors.Is(err, errAgain) || time.Since(began) > s.patience() || ctx.Err() != nil {
			return err
		}
	}
}

// call runs f in a transaction and returns the result of f, unless arguments, the error of the call's arguments, is not
// nil.
func call[T any](ctx context.Context, s *Store, op string, arguments error, f func(*Session) (T, error)) (T, error) {
	var none, out T
	if arguments != nil {
		return none, arguments
	}
	err := s.write(ctx, op, func(tx *Session) (err error) {
		out, err = f(tx)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

// read runs one statement that only reads.
func (s *Store) read(ctx context.Context, statement string, each func(*sql.Rows) error, args ...any) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.engine.Read(ctx, statement, each, args...)
}

// now is the database's time in microseconds, for statements that only read.
func (s *Store) now() int64 {
	if s == nil {
		return 0 // for a nil store: read then refuses the call
	}
	return s.dialect.Now().UnixMicro()
}

// concurrent is nil if write transactions run one after the other.
func (s *Store) concurrent() *Concurrent {
	if s == nil {
		return nil
	}
	return s.dialect.Concurrent
}

func (s *Store) wrap(op string, err error) error {
	if s == nil {
		return err // the error of ready
	}
	return Wrap(op, err, s.engine.Classify)
}

// Wrap names the operation, once, and has errors of the database classified.
func Wrap(op string, err error, classify func(error) error) error {
	if err == nil || errors.Is(err, dibs.ErrInvalid) || errors.Is(err, dibs.ErrLeaseLost) ||
		errors.Is(err, dibs.ErrNotFound) || errors.Is(err, dibs.ErrUnknownQueue) || errors.Is(err, dibs.ErrQueueInUse) {
		return err
	}
	return checks.Failed(op, classify(err))
}
