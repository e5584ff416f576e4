package checks

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
)

// NoTx reports whether a caller has given no transaction: nil, or what can begin one, as a
// *sql.DB and a *sql.Conn can.
func NoTx(tx dibs.SQLTx) bool {
	own, ok := tx.(*sql.Tx)
	_, begins := tx.(interface {
		BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
	})
	return tx == nil || ok && own == nil || begins
}

// ErrNoTx is the error of a transaction's calls if there is none.
var ErrNoTx = &dibs.InvalidError{Field: "tx", Reason: "is nil, has ended, or is no transaction; give the open transaction to work in"}

// InTx checks the function that is to work in a transaction.
func InTx(f func(dibs.Tx) error) error {
	if f == nil {
		return invalid("f", "is nil; give the function that works in the transaction")
	}
	return nil
}
