package checks

import (
	"database/sql"
	"testing"

	"github.com/dibs-queue/dibs"
)

func TestWhatIsNoTransactionIsSeen(t *testing.T) {
	t.Parallel()
	for _, none := range []dibs.SQLTx{nil, (*sql.Tx)(nil), &sql.DB{}, &sql.Conn{}} {
		if !NoTx(none) {
			t.Errorf("%T counts as a transaction", none)
		}
	}
	if NoTx(&sql.Tx{}) || NoTx(onTop{&sql.Tx{}}) {
		t.Error("a transaction counts as none")
	}
}

// onTop is like a transaction of a library on top of database/sql.
type onTop struct{ *sql.Tx }
