package sqlite

import (
	"context"
	"fmt"
	"os"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// mainFile reads which file a connection has opened, without those attached.
const mainFile = "select file from pragma_database_list where name = 'main'"

// Verify refuses a transaction that is read-only, or on another file.
func (e engine) Verify(ctx context.Context, tx dibs.SQLTx) error {
	var readOnly bool
	var file string
	if err := rowstore.One(ctx, tx, mainFile, &file); err != nil {
		return err
	}
	if err := rowstore.One(ctx, tx, "pragma query_only", &readOnly); err != nil {
		return err
	}
	switch {
	case readOnly:
		return &dibs.InvalidError{Field: "tx", Reason: "is read-only; begin it without sql.TxOptions.ReadOnly"}
	case !sameFile(file, e.store.path):
		return &dibs.InvalidError{Field: "tx", Reason: fmt.Sprintf("is on the file %q, the store on %q; begin it there", file, e.store.path)}
	}
	return nil
}

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
