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
	// politeFor is how long a writer takes care of another process after it has seen one.
	// During that time it pauses for gap after each maxStretch of work, which is long enough
	// for a process that tries again every retryPause.
	politeFor  = 100 * time.Millisecond
	maxStretch = 10 * time.Millisecond
	gap        = 2 * time.Millisecond
	// If the writer has waited this long for its next call, it has left a gap already.
	restedFor = time.Millisecond
)

// writer is the process' one writing connection.
type writer struct {
	calls    *rowstore.Writer
	store    *Store
	conn     *sql.Conn
	db       *sql.DB
	lockWait time.Duration // how long a transaction waits for the file's lock

	// Only the goroutine that runs calls uses the fields below.
	prepared     *rowstore.Prepared
	memory       *rowstore.Memory // as it was at version
	version      int64            // data_version of the file at the writer's last transaction
	otherCommits int64            // turn.otherCommits at the writer's last transaction
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

// Figures reports by name what the store's process has counted since it opened the file: the jobs that have waited for
// others, and that it has released or cancelled. Package metrics makes metrics of it.
func (s *Store) Figures(report func(name string, value float64)) {
	if s != nil && s.rows != nil {
		s.rows.Figures(report)
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
		if idle, err = w.onlyReadTime(s, changed); idle { // do not commit: a commit would wake other processes to look for jobs
			end = "rollback"
		}
	}
	if err == nil {
		err = w.Exec(end)
	}
	if err != nil {
		w.memory.Forget()
		w.memory.Upkeep = upkeep
		_ = w.Exec("rollback") // an error is ignored: SQLite may have rolled back by itself
		return nil, err
	}
	w.store.rows.NoteSettled(s)
	return s.Wakes(), nil
}

// idleClock: if the database's clock is at most this far ahead of the system's, a transaction that
// has changed only the clock is rolled back. If it is further ahead, since the system's clock was
// put back, each transaction moves the database's clock on.
const idleClock = time.Second

// onlyReadTime reports whether a transaction has changed nothing but the clock. before is how many rows the
// connection had changed before it.
func (w *writer) onlyReadTime(s *rowstore.Session, before int64) (bool, error) {
	reads, ahead := s.Clock()
	if ahead > idleClock {
		return false, nil
	}
	var changed int64
	err := rowstore.One(context.Background(), w.prepared, "select total_changes()", &changed)
	return changed-before == reads, err
}

// session makes the session of a transaction. changed is how many rows the connection had changed before it. The
// session has the settings that earlier ones have read, unless another connection has written since.
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
