package sqlite

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// engine is what internal/rowstore needs of a store.
type engine struct{ store *Store }

func (e engine) Ready(ctx context.Context) error { return e.store.ready(ctx) }

// Write runs f in the writer's next transaction.
func (e engine) Write(ctx context.Context, f func(*rowstore.Session) error) error {
	return e.store.writer.calls.Call(ctx, f)
}

// Read runs a statement on a connection that only reads.
func (e engine) Read(ctx context.Context, statement string, each func(*sql.Rows) error, args ...any) error {
	return e.store.read(ctx, statement, each, args...)
}

func (e engine) Classify(err error) error { return classify(err) }

// insert runs an insert of jobs, and returns the id of the last one. The ids of one statement follow each other.
func insert(ctx context.Context, conn dibs.SQLTx, text string, args ...any) (last, step int64, err error) {
	result, err := conn.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, 0, err
	}
	last, err = result.LastInsertId()
	return last, 1, err
}
