package sqlite

import (
	"context"
	"fmt"
	"os"

	"github.com/dibs-queue/dibs"
)

// mainFile reads which file a connection has opened, without those attached.
const mainFile = "select file from pragma_database_list where name = 'main'"

// verify refuses a transaction that is read-only, or on another file, where no worker would
// look for the jobs.
func (t *callerTx) verify(ctx context.Context) error {
	if t.verified {
		return nil
	}
	var readOnly bool
	var file string
	if err := scan(ctx, t.conn, mainFile, &file); err != nil {
		return err
	}
	if err := scan(ctx, t.conn, "pragma query_only", &readOnly); err != nil {
		return err
	}
	switch {
	case readOnly:
		return &dibs.InvalidError{Field: "tx", Reason: "is read-only; begin it without sql.TxOptions.ReadOnly"}
	case !sameFile(file, t.store.path):
		return &dibs.InvalidError{Field: "tx", Reason: fmt.Sprintf("is on the file %q, the store on %q; begin it there", file, t.store.path)}
	}
	t.verified = true
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
