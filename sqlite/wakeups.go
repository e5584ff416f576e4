package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Wakeups returns a channel that receives when the queue may have new work.
func (s *Store) Wakeups(queue string) (<-chan struct{}, func()) { return s.common().Wakeups(queue) }

// Wake tells waiting workers of this process that the queue may have new work; those
// of other processes see the commit by themselves.
func (s *Store) Wake(queue string) { s.common().Wake(cmp.Or(queue, dibs.DefaultQueue)) }

// watch is a connection that sees other connections' commits.
type watch struct {
	store    *Store
	conn     *sql.Conn // nil until somebody listens
	prepared *rowstore.Prepared
	session  *rowstore.Session // reads through conn
	version  int64             // data_version of the file at the last look
}

// look returns a session that reads, if another connection has committed since the last look.
func (w *watch) look(ctx context.Context) *rowstore.Session {
	if w.conn == nil {
		conn, err := w.store.readers.Conn(ctx)
		if err != nil {
			return nil
		}
		w.conn, w.prepared = conn, rowstore.NewPrepared(conn)
		w.session = rowstore.NewSession(context.Background(), w.prepared, &w.store.sql.Dialect)
	}
	before := w.version
	if err := rowstore.One(context.Background(), w.prepared, "pragma data_version", &w.version); err != nil || w.version == before {
		return nil
	}
	return w.session
}

func (w *watch) close() {
	if w.conn != nil {
		_ = errors.Join(w.prepared.Close(), w.conn.Close()) // an error is ignored: the connection has only read
	}
}
