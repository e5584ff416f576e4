package mysql_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/storetest"
)

// TestStoreOnACluster runs the conformance suite on three nodes: the store on the first, the other store on the second, and
// callers' transactions on the third.
func TestStoreOnACluster(t *testing.T) {
	needs.Night(t, soLong)
	t.Parallel()
	c := mytest.NewCluster(t, 3)
	storetest.Run(t, storetest.MariaDB, func(t testing.TB) storetest.Setup {
		name := c.Database(t)
		at := func(i int) string { return strings.TrimSuffix(c.Nodes[i].Address(), "dibs") + name }
		s := openStore(t, at(0))
		return storetest.Setup{
			Store:   s,
			Another: func(t testing.TB) admin.Database { return openStore(t, at(1)) },
			Begin:   map[string]storetest.Begin{"sql": storetest.SQL(clusterCallers(t, at(2)), s.SQLTx)},
			Pass:    func(ctx context.Context, d time.Duration) error { return pass(ctx, s.DB(), d) },
		}
	})
}

// clusterCallers is a pool of a program that has settings of its own.
func clusterCallers(t testing.TB, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", address+"?tx_isolation=%27READ-COMMITTED%27&wsrep_sync_wait=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
