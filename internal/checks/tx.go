package checks

import (
	"context"
	"database/sql"
)

// SQLTx is a transaction of database/sql, or of a library on top of it that has its methods.
type SQLTx = interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// NoTx reports whether a caller has given no transaction.
func NoTx(tx SQLTx) bool {
	own, ok := tx.(*sql.Tx)
	return tx == nil || ok && own == nil
}
