package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// On a Galera cluster each node runs transactions by itself, with locks that only its own transactions see.
// When a transaction commits, the rows that it has written are compared with those of all that committed on other nodes meanwhile.
// Of two transactions that have written the same row, the second one fails with 1213.
// So what keeps transactions apart must be written. docs/design/0037-galera.md says what that is.

// syncWait has each transaction, and each read outside of one, begin with all that was committed anywhere before.
const syncWait = "1"

// fixed are the versions from which on a node reports each transaction that it has rolled back for another node's (MDEV-35446).
var fixed = [][3]int{{10, 6, 21}, {10, 11, 11}, {11, 4, 5}, {11, 7, 0}}

// findCluster finds out whether the server is a node of a cluster, and refuses one on which the promises cannot be kept.
func (s *Store) findCluster(ctx context.Context, config *driver.Config, o *Options) error {
	var on string
	err := s.any().pool.QueryRowContext(ctx, "select variable_value from information_schema.global_variables where variable_name = 'wsrep_on'").Scan(&on)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if s.cluster = on == "ON"; !s.cluster {
		if len(s.nodes) > 1 {
			return &dibs.InvalidError{Field: "address", Reason: "names several servers, but " + s.any().host + " is no node of a Galera cluster"}
		}
		return nil
	}
	if err := suitableNode(s.version); err != nil {
		return err
	}
	if err := errors.Join(s.closePools(), s.connect(config, o)); err != nil {
		return err
	}
	return s.findNodes(ctx)
}

// findNodes finds out which nodes are ready.
func (s *Store) findNodes(ctx context.Context) error {
	for _, n := range s.order(s.own) {
		var ready, state string
		err := n.pool.QueryRowContext(ctx, nodeState).Scan(&ready, &state, &s.clusterID, new(string))
		if err == nil && ready == "ON" {
			break
		}
		s.clusterID = ""
	}
	var all sync.WaitGroup
	for _, n := range s.nodes {
		all.Go(func() {
			if !s.isReady(n) {
				s.lost(n, errNotReady)
			}
		})
	}
	all.Wait()
	return ctx.Err()
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

// joined says how the store's own connections get the statements of a file.
func (s *Store) joined() joining {
	if s.cluster {
		return inBlock
	}
	return inPacket
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
func (s *Store) takeSlot(n *node, tx *rowstore.Session, queue string) (got bool, err error) {
	for range 2 {
		var known bool
		if _, err := tx.One("take_slot", []any{queue}, &got, &known); err != nil || got || known {
			return got, err
		}
		if err := s.make(n, "put_slots", queue); err != nil {
			return false, err
		}
	}
	return false, nil
}

// bar has no claim commit that shares the turn of claims, and that does not know what the transaction changes.
func (s *Store) bar(n *node, tx *rowstore.Session, queue string) error {
	const slots = 64
	for range 2 {
		if changed, err := tx.Exec("bar_slots", queue); err != nil || changed == slots {
			return err
		}
		if err := s.make(n, "put_slots", queue); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the slots of the queue's claims are being made; try again", dibs.ErrUnavailable)
}

// nodeOf is the node on which a caller's transaction is; nil if the store does not know it. It refuses one that may not know yet
// what was committed on other nodes before it began: it would take a lease for lost that was given there.
func (s *Store) nodeOf(ctx context.Context, tx dibs.SQLTx) (*node, error) {
	if !s.cluster {
		return s.nodes[0], nil
	}
	var wait int
	var name string
	if err := rowstore.One(ctx, tx, "select @@wsrep_sync_wait, @@wsrep_node_name", &wait, &name); err != nil {
		return nil, err
	}
	if wait&1 == 0 {
		return nil, &dibs.InvalidError{Field: "tx", Reason: "is in a session that does not wait for what other nodes of the cluster have committed; use a transaction of Store.DB, or a data source with wsrep_sync_wait=1"}
	}
	for _, n := range s.nodes {
		if known := n.name.Load(); known != nil && *known == name {
			return n, nil
		}
	}
	return nil, nil //nolint:nilnil // a node that the store does not use is no error
}
