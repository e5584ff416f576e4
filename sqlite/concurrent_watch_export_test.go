package sqlite

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// AddStatement adds a statement of a test's own.
func (s *Store) AddStatement(name, text string) { s.sql.Statements[name] = text }

// Watched returns the calls of the store, each in a session of its own. It calls begin before each call. It calls
// before, with the statement's name and parameters, before each statement; exec runs SQL in the same transaction, and
// so stands for what another transaction has committed meanwhile.
func (s *Store) Watched(ctx context.Context, begin func(), before func(name string, args []any, exec func(text string) error) error) *rowstore.Store {
	names := map[string]string{}
	for name, text := range s.sql.Statements {
		names[text] = name
	}
	return rowstore.New(testEngine{engine{s}, func(_ *rowstore.Session, f func(*rowstore.Session) error) error {
		begin()
		tx := rowstore.NewSession(ctx, watched{s.writer.prepared, names, before}, &s.sql.Dialect)
		if err := tx.Run(f); err != nil {
			return err
		}
		return tx.WriteTally()
	}}, &s.sql.Dialect)
}

type watched struct {
	dibs.SQLTx
	names  map[string]string
	before func(name string, args []any, exec func(text string) error) error
}

func (w watched) interpose(ctx context.Context, text string, args []any) error {
	return w.before(w.names[text], args, func(text string) error {
		_, err := w.SQLTx.ExecContext(ctx, text)
		return err
	})
}

func (w watched) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if err := w.interpose(ctx, text, args); err != nil {
		return nil, err
	}
	return w.SQLTx.ExecContext(ctx, text, args...)
}

func (w watched) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if err := w.interpose(ctx, text, args); err != nil {
		return nil, err
	}
	return w.SQLTx.QueryContext(ctx, text, args...)
}
