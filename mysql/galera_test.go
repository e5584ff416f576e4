package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// TestWhatGaleraKeepsApart shows on what docs/design/0037-galera.md stands.
func TestWhatGaleraKeepsApart(t *testing.T) {
	t.Parallel()
	c := mytest.NewCluster(t, 2)
	a, b := galeraPool(t, c.Nodes[0]), galeraPool(t, c.Nodes[1])
	mustRun(t, a, "create table t (id bigint auto_increment primary key, n int not null, m int not null)")
	mustRun(t, a, "insert into t (id, n, m) values (1, 0, 0), (2, 0, 0), (3, 0, 0)")
	const lock = "select id from t where id = 1 for update skip locked"
	for _, c := range []struct {
		what, first, second string
		conflict            bool
	}{
		{"rows that both lock", "update t set n = n + 1 where id = 2", "update t set n = n + 1 where id = 3", false},
		{"a row that both change", "update t set n = n + 1 where id = 1", "update t set n = n + 1 where id = 1", true},
		{"columns of a row", "update t set n = n + 1 where id = 1", "update t set m = m + 1 where id = 1", true},
		{"a row that both write without a change", "update t set n = n where id = 1", "update t set n = n where id = 1", false},
		{"a row that one deletes", "delete from t where id = 1", "update t set n = n + 1 where id = 1", true},
	} {
		var ids [2]int
		first, second := beginOn(t, a), beginOn(t, b)
		for i, tx := range []*sql.Tx{first, second} {
			if err := tx.QueryRow(lock).Scan(&ids[i]); err != nil {
				t.Fatalf("%s: the lock: %v", c.what, err)
			}
		}
		err := both(first, second, c.first, c.second)
		if got := galeraCode(err) == 1213; got != c.conflict || err != nil && !got {
			t.Errorf("%s: %v", c.what, err)
		}
		mustRun(t, a, "insert ignore into t (id, n, m) values (1, 0, 0)")
	}
}

// both has the first transaction write and commit, and then the second, which has begun before.
func both(first, second *sql.Tx, one, other string) error {
	defer second.Rollback() //nolint:errcheck // it may have ended
	if _, err := second.Exec(other); err != nil {
		return err
	}
	if _, err := first.Exec(one); err != nil {
		return err
	}
	if err := first.Commit(); err != nil {
		return fmt.Errorf("the first: %w", err)
	}
	return second.Commit()
}

func galeraPool(t testing.TB, n *mytest.Node) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", n.Address()+"?tx_isolation=%27READ-COMMITTED%27&wsrep_sync_wait=1&multiStatements=true&interpolateParams=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func beginOn(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func mustRun(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func galeraCode(err error) uint16 {
	var refused *driver.MySQLError
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

// TestATransactionBeginsWithAllThatWasCommittedAnywhere also looks at ids.
func TestATransactionBeginsWithAllThatWasCommittedAnywhere(t *testing.T) {
	t.Parallel()
	c := mytest.NewCluster(t, 2)
	a, b := galeraPool(t, c.Nodes[0]), galeraPool(t, c.Nodes[1])
	mustRun(t, a, "create table t (id bigint auto_increment primary key, n int not null)")
	old := 0
	for i := range 300 {
		mustRun(t, a, fmt.Sprint("insert into t (n) values (", i, ")"))
		tx := beginOn(t, b)
		var n int
		if err := tx.QueryRow("select max(n) from t").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != i {
			old++
		}
		_ = tx.Rollback()
	}
	if old > 0 {
		t.Errorf("%d of 300 transactions did not see what was committed before they began", old)
	}
	conn, err := b.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var before, after int
	_ = conn.QueryRowContext(context.Background(), "select @@auto_increment_increment").Scan(&before)
	if err := c.Nodes[0].Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[1].Joined(1); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	_ = conn.QueryRowContext(context.Background(), "select @@auto_increment_increment").Scan(&after)
	t.Logf("the step between ids was %d, and is %d in the same session", before, after)
}
