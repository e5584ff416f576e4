package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

const (
	// politeFor is how long a writer remembers that it has met another process. Meanwhile
	// it pauses for a gap after each maxStretch of work, long enough for a process that
	// tries again every retryPause.
	politeFor  = 100 * time.Millisecond
	maxStretch = 10 * time.Millisecond
	gap        = 2 * time.Millisecond
	// A writer that has waited for its next call for restedFor has left such a gap.
	restedFor = time.Millisecond
)

// writer is the process' one writing connection.
type writer struct {
	calls    *rowstore.Writer
	store    *Store
	conn     *sql.Conn
	db       *sql.DB
	lockWait time.Duration // how long a transaction waits for the file's lock

	// Only the goroutine of calls uses the fields below.
	prepared     *rowstore.Prepared
	memory       *rowstore.Memory // as it was at version
	version      int64            // data_version of the file at our last transaction
	otherCommits int64            // turn.otherCommits at our last transaction
	rivalSeenAt  time.Time        // when another process was last seen writing
	busySince    time.Time        // when the last pause ended
	endedAt      time.Time        // when the last transaction ended
}

func startWriter(ctx context.Context, db *sql.DB, s *Store, limit time.Duration) (*writer, error) {
	w := &writer{store: s, db: db, lockWait: limit, memory: rowstore.NewMemory()}
	err := retryBusy(ctx, limit, func() (err error) {
		w.conn, err = w.db.Conn(ctx)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, w.db.Close())
	}
	w.prepared = rowstore.NewPrepared(w.conn)
	w.calls = rowstore.StartWriter(w, s.rows.Wake)
	return w, nil
}

// stop ends the connection once the calls that have begun are answered.
func (w *writer) stop() error {
	w.calls.Stop()
	return errors.Join(w.prepared.Close(), w.conn.Close(), w.db.Close())
}

// ObserveBatches has f called for each transaction of the store, with "write" and the number of calls that
// went into it. f must be quick: the store writes nothing meanwhile. nil ends it.
func (s *Store) ObserveBatches(f func(call string, calls int)) {
	if s != nil && s.writer != nil {
		s.writer.calls.Observe(f)
	}
}

// Turn waits until no other transaction of this process writes. It lets other processes write after a maxStretch of work.
func (w *writer) Turn() error {
	if time.Since(w.endedAt) > restedFor {
		w.busySince = time.Now()
	}
	if time.Since(w.rivalSeenAt) < politeFor && time.Since(w.busySince) > maxStretch {
		time.Sleep(gap)
		w.busySince = time.Now()
	}
	ctx, stop := context.WithTimeout(context.Background(), w.lockWait)
	defer stop()
	if err := w.store.turn.take(ctx); err != nil {
		return fmt.Errorf("%w: another transaction of this process was open for %v; end it", dibs.ErrUnavailable, w.lockWait)
	}
	return nil
}

// Pass lets others write.
func (w *writer) Pass() {
	w.store.turn.pass()
	w.endedAt = time.Now()
}

// Blocked says which process holds the file's lock.
func (w *writer) Blocked(err error) error { return w.store.turn.blocked(err) }

// Transact runs f in a transaction on the file.
func (w *writer) Transact(f func(*rowstore.Session) error) (wake []string, err error) {
	met, err := w.store.turn.begin(context.Background(), w.lockWait, func() error { return w.Exec("begin immediate") })
	if met {
		w.rivalSeenAt = time.Now()
	}
	if err != nil {
		return nil, err
	}
	upkeep := w.memory.Upkeep
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
		err = w.Exec(end)
	}
	if err != nil {
		w.memory.Forget()
		w.memory.Upkeep = upkeep
		_ = w.Exec("rollback") // SQLite may have rolled back already
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
	err := rowstore.One(context.Background(), w.prepared, "select total_changes()", &changed)
	return changed-before == reads, err
}

// session makes the session of a transaction, and tells how many rows the connection had changed before it. The session
// keeps the settings read by earlier ones until another connection writes.
func (w *writer) session() (s *rowstore.Session, changed int64, err error) {
	var version int64
	if err := rowstore.One(context.Background(), w.prepared, "select data_version, total_changes() from pragma_data_version", &version, &changed); err != nil {
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

// Exec runs a statement of the transaction.
func (w *writer) Exec(text string) error {
	_, err := w.prepared.ExecContext(context.Background(), text)
	return err
}
