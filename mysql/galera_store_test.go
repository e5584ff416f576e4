package mysql_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/storetest"
)

// TestStoreOnACluster runs the conformance suite on two nodes of three: the store and callers' transactions on the first, the other
// store on the second. An open transaction keeps others of its node from its jobs; those of other nodes it makes fail, or they it.
func TestStoreOnACluster(t *testing.T) {
	c := mytest.NewCluster(t, 3)
	storetest.Run(t, storetest.MariaDB, func(t testing.TB) storetest.Setup {
		name := c.Database(t)
		at := func(i int) string { return strings.TrimSuffix(c.Nodes[i].Address(), "dibs") + name }
		s := openStore(t, at(0))
		return storetest.Setup{
			Conflicts: true,
			Store:     s,
			Another:   func(t testing.TB) admin.Database { return openStore(t, at(1)) },
			Begin:     map[string]storetest.Begin{"sql": storetest.SQL(callers(t, at(0), "&wsrep_sync_wait=1"), s.SQLTx)},
			Pass:      func(ctx context.Context, d time.Duration) error { return pass(ctx, s.DB(), d) },
		}
	})
}
