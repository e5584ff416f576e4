package rowstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/dibs-queue/dibs"
)

// Prepared runs statements on a connection, a transaction or a pool, and keeps each one prepared for the next time: to
// plan a statement can take longer than to run it.
type Prepared struct {
	on   Preparer
	mu   sync.RWMutex
	kept map[string]*sql.Stmt
}

// Preparer is a *sql.Conn, a *sql.Tx or a *sql.DB.
type Preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// NewPrepared keeps statements on a connection, a transaction or a pool.
func NewPrepared(on Preparer) *Prepared { return &Prepared{on: on, kept: make(map[string]*sql.Stmt)} }

func (p *Prepared) get(ctx context.Context, query string) (*sql.Stmt, error) {
	p.mu.RLock()
	st := p.kept[query]
	p.mu.RUnlock()
	if st != nil {
		return st, nil
	}
	st, err := p.on.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.kept[query]; other != nil {
		_ = st.Close() // another goroutine has prepared the same statement first
		return other, nil
	}
	p.kept[query] = st
	return st, nil
}

// ExecContext runs a statement that writes.
func (p *Prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := p.get(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// QueryContext runs a statement that returns rows.
func (p *Prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := p.get(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// Close closes the statements: database/sql does not, and SQLite keeps the files of a
// connection open while it has statements.
func (p *Prepared) Close() error {
	var errs []error
	for _, st := range p.kept {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}

// Each runs a statement and calls f for each row.
func Each(ctx context.Context, conn dibs.SQLTx, text string, f func(*sql.Rows) error, args ...any) error {
	rows, err := conn.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	err = rows.Err()
	if ended := rows.Close(); err == nil {
		err = ended // a block of statements may fail when it has sent its rows
	}
	return err
}

// One reads the single row that a statement returns.
func One(ctx context.Context, conn dibs.SQLTx, text string, to ...any) error {
	return Each(ctx, conn, text, func(rows *sql.Rows) error { return rows.Scan(to...) })
}
