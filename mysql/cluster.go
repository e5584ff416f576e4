package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// On a Galera cluster each node runs transactions by itself, with locks that only its own transactions see. At the commit the rows
// that a transaction has written are compared with those of all that committed on other nodes since: of two that have written
// the same row, the second one fails with 1213. So what keeps transactions apart must be written. docs/design/0037-galera.md says
// what that is.

// syncWait has each transaction, and each read outside of one, begin with all that was committed anywhere before.
const syncWait = "1"

// fixed are the versions from which on a node reports each transaction that it has rolled back for another node's (MDEV-35446).
var fixed = [][3]int{{10, 6, 21}, {10, 11, 11}, {11, 4, 5}, {11, 7, 0}}

// findCluster finds out whether the server is a node of a cluster, and refuses one on which the promises cannot be kept.
func (s *Store) findCluster(ctx context.Context, version string) error {
	var on string
	err := s.pool.QueryRowContext(ctx, "select variable_value from information_schema.global_variables where variable_name = 'wsrep_on'").Scan(&on)
	if errors.Is(err, sql.ErrNoRows) || err == nil && on != "ON" {
		return nil
	}
	if err != nil {
		return err
	}
	s.cluster = true
	c := s.sql.Concurrent
	c.Certified, c.Bar = true, s.bar
	return suitableNode(version)
}

func suitableNode(version string) error {
	var v [3]int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]) // suitable has read the version
	for i, f := range fixed {
		last := i == len(fixed)-1
		if (last || v[0] == f[0] && v[1] == f[1]) && compare(v, f) >= 0 {
			return nil
		}
	}
	return &dibs.InvalidError{Field: "address", Reason: fmt.Sprintf("names a node of a Galera cluster of version %s, which may report a transaction as committed that it has rolled back (MDEV-35446); dibs needs 10.6.21, 10.11.11, 11.4.5 or later", version)}
}

func compare(a, b [3]int) int {
	for i := range a {
		if a[i] != b[i] {
			return a[i] - b[i]
		}
	}
	return 0
}

// reconnect replaces the pools by those of a cluster.
func (s *Store) reconnect(config *driver.Config, o *Options) error {
	return errors.Join(s.release(), s.connect(config, o))
}

// conflictsFor is how long a transaction is begun again that fails as others on other nodes write the same rows.
const conflictsFor = 10 * time.Second

// conflict reports whether a transaction is to be begun again because of one on another node.
func (s *Store) conflict(err error, took time.Duration) bool {
	return s.cluster && code(err) == codeDeadlock && took < conflictsFor
}

// insertReturning returns the last id, by how much each is greater than the one before, and how many rows were inserted. That step
// is the number of nodes, which may change at any time.
func insertReturning(ctx context.Context, tx dibs.SQLTx, text string, args []any) (last, step, n int64, err error) {
	step = 1
	err = rowstore.Each(ctx, tx, text+"\nreturning id", func(rows *sql.Rows) error {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if n++; n == 2 {
			step = id - last
		}
		if n > 2 && id-last != step {
			return fmt.Errorf("the ids of an insert are no row: %d comes after %d", id, last)
		}
		last = id
		return nil
	}, args...)
	return last, step, n, err
}

// takeSlot takes the turn of a claim together with others. Of 64 slots each node uses eight, so that claims of different nodes do
// not conflict.
func (s *Store) takeSlot(tx *rowstore.Session, queue string) (got bool, err error) {
	for range 2 {
		var known bool
		if _, err := tx.One("take_slot", []any{queue}, &got, &known); err != nil || got || known {
			return got, err
		}
		if err := s.make("put_slots", queue); err != nil {
			return false, err
		}
	}
	return false, nil
}

// bar has no claim commit that shares the turn of claims, and that does not know what the transaction changes.
func (s *Store) bar(tx *rowstore.Session, queue string) error {
	const slots = 64
	for range 2 {
		if n, err := tx.Exec("bar_slots", queue); err != nil || n == slots {
			return err
		}
		if err := s.make("put_slots", queue); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the slots of the queue's claims are being made; try again", dibs.ErrUnavailable)
}

// causal refuses a caller's transaction on a cluster that may not know yet what was committed on other nodes before it began. Such
// a one would take a lease for lost that was given there.
func (s *Store) causal(ctx context.Context, tx dibs.SQLTx) error {
	if !s.cluster {
		return nil
	}
	var wait int
	if err := rowstore.One(ctx, tx, "select @@wsrep_sync_wait", &wait); err != nil {
		return err
	}
	if wait&1 == 0 {
		return &dibs.InvalidError{Field: "tx", Reason: "is in a session that does not wait for what other nodes of the cluster have committed; use a transaction of Store.DB, or a data source with wsrep_sync_wait=1"}
	}
	return nil
}
