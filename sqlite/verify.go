package sqlite

import (
	"context"
	"fmt"
	"os"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// ready refuses calls without an open store, a transaction or a live context.
func (t *callerTx) ready(ctx context.Context) error {
	if err := t.store.ready(ctx); err != nil {
		return err
	}
	if t.session == nil {
		return checks.ErrNoTx
	}
	return ctx.Err()
}

// mainFile reads which file a connection has opened, without those attached.
const mainFile = "select file from pragma_database_list where name = 'main'"

// verify refuses a transaction that is read-only, or on another file, where no worker would
// look for the jobs.
func (t *callerTx) verify() error {
	if t.verified {
		return nil
	}
	var readOnly bool
	var file string
	s := t.session
	if err := s.scan(mainFile, &file); err != nil {
		return err
	}
	if err := s.scan("pragma query_only", &readOnly); err != nil {
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
