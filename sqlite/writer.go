package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

const (
	// maxTransaction is how long one transaction goes on taking calls that came meanwhile.
	maxTransaction = 20 * time.Millisecond
	// politeFor is how long a writer remembers that it has met another process. Meanwhile
	// it pauses for a gap after each maxStretch of work, long enough for a process that
	// tries again every retryPause.
	politeFor  = 100 * time.Millisecond
	maxStretch = 10 * time.Millisecond
	gap        = 2 * time.Millisecond
)

// writer owns the process' one writing connection. One goroutine runs all calls that wait in
// one transaction; then it commits once and answers them all. A call that fails undoes only
// itself. A call that meets no other runs at once.
type writer struct {
	store    *Store
	conn     *sql.Conn
	db       *sql.DB
	lockWait time.Duration // how long a transaction waits for the file's lock

	calls   chan *call
	quit    chan struct{}
	once    sync.Once
	stopped chan struct{}

	// Only the goroutine uses the fields below.
	prepared     *prepared
	memory       *rowstore.Memory // as it was at version
	version      int64            // data_version of the file at our last transaction
	otherCommits int64            // turn.otherCommits at our last transaction
	rivalSeenAt  time.Time        // when another process was last seen writing
	busySince    time.Time        // when the last pause ended
}

// call is one piece of work. run may be called twice (writer.run), the first time for nothing.
// The first to change state from callWaiting owns the call: the
// writer, to run it, or its caller, to give it up.
type call struct {
	run   func(*rowstore.Session) error
	state atomic.Int32
	err   error
	done  chan struct{}
}

const (
	callWaiting = iota
	callRunning
	callGivenUp
)

func startWriter(ctx context.Context, db *sql.DB, s *Store, limit time.Duration) (*writer, error) {
	w := &writer{
		store: s, db: db, lockWait: limit,
		calls: make(chan *call, 256), quit: make(chan struct{}), stopped: make(chan struct{}),
		memory: rowstore.NewMemory(),
	}
	err := retryBusy(ctx, limit, func() (err error) {
		w.conn, err = w.db.Conn(ctx)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, w.db.Close())
	}
	w.prepared = newPrepared(w.conn)
	go w.loop()
	return w, nil
}

// call runs f in a transaction and returns when that is durable. It waits for a call that
// has begun even after ctx ends, so that no job is claimed without a caller to get it.
func (w *writer) call(ctx context.Context, f func(*rowstore.Session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &call{run: f, done: make(chan struct{})}
	select {
	case w.calls <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return dibs.ErrClosed
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		if c.state.CompareAndSwap(callWaiting, callGivenUp) {
			return w.store.turn.blocked(ctx.Err())
		}
	case <-w.stopped:
		if c.state.CompareAndSwap(callWaiting, callGivenUp) {
			return dibs.ErrClosed
		}
	}
	<-c.done
	return c.err
}

// ObserveBatches has f called for each transaction of the store, with "write" and the number of calls that
// went into it. f must be quick: the store writes nothing meanwhile. nil ends it.
func (s *Store) ObserveBatches(f func(call string, calls int)) {
	if s != nil {
		s.batches.Store(&f)
	}
}

func (w *writer) closed() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// stop ends the goroutine once it has answered the calls that it has taken.
func (w *writer) stop() error {
	w.once.Do(func() { close(w.quit) })
	<-w.stopped
	return errors.Join(w.prepared.close(), w.conn.Close(), w.db.Close())
}

func (w *writer) loop() {
	defer close(w.stopped)
	for {
		idle := time.Now()
		select {
		case <-w.quit:
			return
		case c := <-w.calls:
			if now := time.Now(); now.Sub(idle) > time.Millisecond {
				w.busySince = now
			}
			w.transact(c)
			w.makeRoom()
		}
	}
}

// makeRoom lets other processes write after a maxStretch of work.
func (w *writer) makeRoom() {
	if time.Since(w.rivalSeenAt) < politeFor && time.Since(w.busySince) > maxStretch {
		time.Sleep(gap)
		w.busySince = time.Now()
	}
}

// transact runs first and all calls that wait behind it in one transaction.
func (w *writer) transact(first *call) {
	ctx, stop := context.WithTimeout(context.Background(), w.lockWait)
	err := w.store.turn.take(ctx)
	stop()
	if err != nil {
		w.refuse(first, fmt.Errorf("%w: another transaction of this process was open for %v; end it", dibs.ErrUnavailable, w.lockWait))
		return
	}
	taken, wake, err := w.run(first)
	w.store.turn.pass()
	if f := w.store.batches.Load(); f != nil && *f != nil {
		(*f)("write", len(taken))
	}
	for _, c := range taken {
		if c.err == nil {
			c.err = err
		}
		close(c.done)
	}
	if err == nil {
		w.store.bell.Wake(wake...)
	} else if len(taken) == 0 {
		w.refuse(first, err)
	}
}

// refuse answers a call that was not run.
func (w *writer) refuse(c *call, err error) {
	if c.state.CompareAndSwap(callWaiting, callRunning) {
		c.err = err
		close(c.done)
	}
}

// run runs first and the calls that wait behind it in one transaction. If one of them fails,
// it undoes them all and runs each again under a savepoint, so that the call undoes only
// itself. Savepoints are not set at once, because a transaction with one keeps a copy of each
// page that it changes, and each statement in it walks through the list of these copies.
//
// It returns the calls that it has taken, the queues to wake, and the error of the whole
// transaction; with such an error no call has taken effect.
func (w *writer) run(first *call) (taken []*call, wake []string, err error) {
	failed := false
	wake, err = w.transaction(func(s *rowstore.Session) error {
		began := time.Now()
		for c := first; c != nil; c = w.next(began) {
			if !c.state.CompareAndSwap(callWaiting, callRunning) {
				continue
			}
			taken = append(taken, c)
			if err := s.Run(c.run); err != nil {
				failed = true
				return err
			}
		}
		return nil
	})
	if failed {
		wake, err = w.transaction(func(s *rowstore.Session) error {
			for _, c := range taken {
				if err := w.runAlone(s, c); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return taken, wake, err
}

// transaction commits what f does, and returns the queues to wake.
func (w *writer) transaction(f func(*rowstore.Session) error) (wake []string, err error) {
	if err := w.begin(); err != nil {
		return nil, err
	}
	lastSweep := w.memory.LastSweep
	s, changed, err := w.session()
	if err == nil {
		err = f(s)
	}
	if err == nil {
		err = s.WriteTally()
	}
	end := "commit"
	if err == nil && s.Idle() {
		var idle bool
		if idle, err = w.onlyReadTime(s, changed); idle { // a commit would wake other processes to look for jobs
			end = "rollback"
		}
	}
	if err == nil {
		err = w.exec(end)
	}
	if err != nil {
		w.memory.Forget()
		w.memory.LastSweep = lastSweep
		_ = w.exec("rollback") // SQLite may have rolled back already
		return nil, err
	}
	return s.Wakes(), nil
}

// idleClock is how far ahead of the system's clock the database's may be for a transaction to be
// dropped that has changed nothing else. If the system's clock was put back by more than that, each
// transaction moves the database's on.
const idleClock = time.Second

// onlyReadTime reports whether the transaction has changed nothing but the clock. Before it, the connection had
// changed some rows already.
func (w *writer) onlyReadTime(s *rowstore.Session, before int64) (bool, error) {
	reads, ahead := s.Clock()
	if ahead > idleClock {
		return false, nil
	}
	var changed int64
	err := scan(context.Background(), w.prepared, "select total_changes()", &changed)
	return changed-before == reads, err
}

// begin waits for the file's lock.
func (w *writer) begin() error {
	met, err := w.store.turn.begin(context.Background(), w.lockWait, func() error { return w.exec("begin immediate") })
	if met {
		w.rivalSeenAt = time.Now()
	}
	return err
}

// next takes another call that waits, unless the transaction is long enough.
func (w *writer) next(began time.Time) *call {
	if time.Since(began) > maxTransaction {
		return nil
	}
	select {
	case c := <-w.calls:
		return c
	default:
		return nil
	}
}

// runAlone runs c under a savepoint. It sets c's own error, and returns one that ends the
// transaction.
func (w *writer) runAlone(s *rowstore.Session, c *call) error {
	if err := w.exec("savepoint call"); err != nil {
		return err
	}
	mark := s.Mark()
	if c.err = c.run(s); c.err == nil {
		return w.exec("release call")
	}
	s.Reset(mark)
	w.memory.Forget()
	if err := w.exec("rollback to call"); err != nil {
		return c.err // SQLite has rolled the whole transaction back
	}
	return w.exec("release call")
}

// session makes the session of a transaction, and tells how many rows the connection had changed before it. The session
// keeps the settings read by earlier ones until another connection writes.
func (w *writer) session() (s *rowstore.Session, changed int64, err error) {
	var version int64
	if err := scan(context.Background(), w.prepared, "select data_version, total_changes() from pragma_data_version", &version, &changed); err != nil {
		return nil, 0, err
	}
	commits := w.store.turn.otherCommits.Load()
	if version != w.version {
		w.memory.Forget()
		if commits == w.otherCommits {
			w.rivalSeenAt = time.Now()
		}
	}
	w.version, w.otherCommits = version, commits
	s = rowstore.NewSession(context.Background(), w.prepared, &w.store.sql.Dialect)
	s.Use(w.memory)
	return s, changed, nil
}

func (w *writer) exec(text string) error {
	_, err := w.prepared.ExecContext(context.Background(), text)
	return err
}
