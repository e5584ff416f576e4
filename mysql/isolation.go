package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Verify refuses a transaction that is read-only, on another database, or whose snapshots are older than its locks.
func (e engine) Verify(ctx context.Context, tx dibs.SQLTx) error {
	var isolation, database, gap string
	var readOnly, locked bool
	node, err := e.store.nodeOf(ctx, tx)
	if err != nil {
		return err
	}
	err = rowstore.One(ctx, tx, e.store.sql.Statements.Get("verify"), &isolation, &readOnly, &database, &gap, &locked)
	switch {
	case unknownTable(err) || err == nil && database != e.store.identity:
		return &dibs.InvalidError{Field: "tx", Reason: "is on another database than the store; begin it there"}
	case err != nil:
		return err
	case readOnly:
		return &dibs.InvalidError{Field: "tx", Reason: "is read-only; begin it without sql.TxOptions.ReadOnly"}
	case isolation != "READ-COMMITTED":
		return wrongIsolation("is in a session with isolation " + isolation)
	}
	if node == nil {
		return nil // no connection of the store's would meet the gap
	}
	holds, err := e.store.holdsGaps(ctx, node, tx, gap)
	if err == nil && holds {
		err = wrongIsolation("was begun with an isolation of its own, REPEATABLE READ or SERIALIZABLE")
	}
	return err
}

func wrongIsolation(how string) error {
	return &dibs.InvalidError{Field: "tx", Reason: how + ", in which it would decide by rows that others have changed since; use READ COMMITTED: a transaction of Store.DB, or a data source with tx_isolation='READ-COMMITTED', and no sql.TxOptions.Isolation"}
}

const (
	gaps     = 64 // between rows of dibs_turn, into which only try_gap inserts
	gapTries = 3  // so that another transaction that holds a gap does not count as this one
)

// holdsGaps reports whether a transaction that has looked for a row in a gap keeps others from inserting one: so it is in
// REPEATABLE READ and SERIALIZABLE, and not in READ COMMITTED. The server shows the isolation of a transaction only to
// users with the privilege PROCESS, and not before a tenth of a second has passed.
func (s *Store) holdsGaps(ctx context.Context, n *node, tx dibs.SQLTx, gap string) (bool, error) {
	for try := 1; ; try++ {
		_, err := conn{n.side, s.joined()}.ExecContext(ctx, s.sql.Statements.Get("try_gap"), gap)
		switch {
		case code(err) == codeDuplicate:
			return false, nil
		case !waitedTooLong(err):
			return false, err
		case try == gapTries:
			return true, nil
		}
		gap = fmt.Sprintf("%02X+", rand.N(gaps))
		if err := rowstore.Each(ctx, tx, s.sql.Statements.Get("lock_gap"), func(*sql.Rows) error { return nil }, gap); err != nil {
			return false, err
		}
	}
}
