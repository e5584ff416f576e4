package mysql

import (
	"context"
	crand "crypto/rand"
	"database/sql"
	"fmt"
	"math/rand/v2"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Verify refuses a transaction that has ended, is read-only, on another database, or in which a read does not see just what was
// committed before it.
func (e engine) Verify(ctx context.Context, tx dibs.SQLTx) error {
	var isolation, database, gap string
	var open, readOnly, locked bool
	node, err := e.store.nodeOf(ctx, tx)
	if err != nil {
		return err
	}
	err = rowstore.One(ctx, tx, e.store.sql.Statements.Get("verify"), &open, &isolation, &readOnly, &database, &gap, &locked)
	switch {
	case unknownTable(err) || err == nil && database != e.store.identity:
		return &dibs.InvalidError{Field: "tx", Reason: "is on another database than the store; begin it there"}
	case err != nil:
		return err
	case !open:
		return rowstore.ErrRolledBack
	case readOnly:
		return &dibs.InvalidError{Field: "tx", Reason: "is read-only; begin it without sql.TxOptions.ReadOnly"}
	case isolation != "READ-COMMITTED":
		return wrongIsolation("is in a session with isolation " + isolation)
	}
	if node == nil {
		return nil // no connection of the store's would meet the gap, or show what was not committed
	}
	return e.store.checkIsolation(ctx, node, tx, gap)
}

func wrongIsolation(how string) error {
	return &dibs.InvalidError{Field: "tx", Reason: how + ", in which it would decide by rows that others have changed since, or never commit; use READ COMMITTED: a transaction of Store.DB, or a data source with tx_isolation='READ-COMMITTED', and no sql.TxOptions.Isolation"}
}

const (
	gaps     = 64 // between rows of dibs_turn, into which only try_gap inserts
	gapTries = 3  // so that another transaction that holds a gap does not count as this one
)

// checkIsolation refuses a transaction that has looked for a row in a gap if it keeps others from inserting one, as it does in
// REPEATABLE READ and SERIALIZABLE, or if it sees a row that was not committed, as in READ UNCOMMITTED. The server shows the
// isolation of a transaction only to users with the privilege PROCESS, and not before a tenth of a second has passed.
func (s *Store) checkIsolation(ctx context.Context, n *node, tx dibs.SQLTx, gap string) error {
	c, err := n.side.Conn(ctx)
	if err != nil {
		return err
	}
	defer s.rollbackBeside(ctx, c)
	beside := conn{c, inPacket}
	if s.cluster {
		beside.joined = apart // the rest of a packet would run outside of a transaction that another node's has ended
	}
	row := crand.Text()
	for try := 1; ; try++ {
		_, err := beside.ExecContext(ctx, s.sql.Statements.Get("try_gap"), gap, row)
		switch {
		case err == nil:
			return s.checkUncommitted(ctx, tx, row)
		case !waitedTooLong(err):
			return err
		case try == gapTries:
			return wrongIsolation("was begun with an isolation of its own, REPEATABLE READ or SERIALIZABLE")
		}
		gap = fmt.Sprintf("%02X+", rand.N(gaps))
		if err := rowstore.Each(ctx, tx, s.sql.Statements.Get("lock_gap"), func(*sql.Rows) error { return nil }, gap); err != nil {
			return err
		}
	}
}

func (s *Store) checkUncommitted(ctx context.Context, tx dibs.SQLTx, row string) error {
	var seen bool
	err := rowstore.Each(ctx, tx, s.sql.Statements.Get("see_uncommitted"), func(rows *sql.Rows) error { return rows.Scan(&seen) }, row)
	if err == nil && seen {
		err = wrongIsolation("was begun with an isolation of its own, READ UNCOMMITTED")
	}
	return err
}

// rollbackBeside ends what checkIsolation has begun on a connection. Nobody waits for it.
func (s *Store) rollbackBeside(ctx context.Context, c *sql.Conn) {
	s.ending.Go(func() {
		rollback(ctx, c)
		_ = c.Close() // it goes back to the pool
	})
}
