package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/dibs-queue/dibs"
)

// prepared runs statements on a connection or transaction, and keeps each one prepared for the
// next time.
type prepared struct {
	conn preparer
	kept map[string]*sql.Stmt
}

// preparer is a *sql.Conn or a *sql.Tx.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func newPrepared(conn preparer) *prepared {
	return &prepared{conn: conn, kept: make(map[string]*sql.Stmt)}
}

func (p *prepared) get(ctx context.Context, query string) (*sql.Stmt, error) {
	if st, ok := p.kept[query]; ok {
		return st, nil
	}
	st, err := p.conn.PrepareContext(ctx, query)
	if err == nil {
		p.kept[query] = st
	}
	return st, err
}

func (p *prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := p.get(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

func (p *prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := p.get(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// scan reads the single row that a statement returns.
func scan(ctx context.Context, conn dibs.SQLTx, text string, to ...any) error {
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// close closes the statements: database/sql does not, and SQLite keeps the files of a
// connection open while it has statements.
func (p *prepared) close() error {
	var errs []error
	for _, st := range p.kept {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}
