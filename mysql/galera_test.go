package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// TestWhatGaleraKeepsApart shows on what docs/design/0037-galera.md stands.
func TestWhatGaleraKeepsApart(t *testing.T) {
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

func TestATransactionBeginsWithAllThatWasCommittedAnywhere(t *testing.T) {
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
}

// TestATransactionThatIsRolledBackForAnotherNodeSaysSo has a node roll transactions back at any moment, also between two statements,
// as others change the rows that they lock. What a transaction has written must be there as a whole if its commit was acknowledged,
// and not at all if it failed with 1213. In packets of several statements that is not so: the rest of a packet runs outside of the
// transaction.
func TestATransactionThatIsRolledBackForAnotherNodeSaysSo(t *testing.T) {
	c := mytest.NewCluster(t, 2)
	a, b := galeraPool(t, c.Nodes[0]), galeraPool(t, c.Nodes[1])
	mustRun(t, a, "create table hot (id bigint primary key, n bigint not null); insert into hot values (0, 0), (1, 0)")
	for _, table := range written {
		mustRun(t, a, "create table "+table+" (id bigint primary key)")
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	const clients = 8
	var all errgroup.Group
	acknowledged, failed := [clients][]int64{}, [clients]int{}
	for client := range clients {
		db := a
		if client%4 == 3 { // these make the others fail
			db = b
		}
		all.Go(func() error {
			for id := int64(client); ctx.Err() == nil; id += clients {
				committed, err := inParts(db, id, id/clients%2, client%2 == 0)
				switch {
				case err != nil:
					return err
				case committed:
					acknowledged[client] = append(acknowledged[client], id)
				default:
					failed[client]++
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(slices.Concat(acknowledged[:]...)))
	for _, table := range written {
		if got := idsIn(t, b, table); !slices.Equal(got, want) {
			t.Errorf("%d rows are in %s, and %d transactions were committed", len(got), table, len(want))
		}
	}
	t.Logf("%d transactions were committed; of the clients' failed %v", len(want), failed)
	if failed == [clients]int{} {
		t.Error("no transaction failed")
	}
}

// written are the tables of which each transaction writes all.
var written = []string{"one", "two", "three"}

// inParts is a transaction of several parts, each of several statements, one by one or as a block. It reports whether the transaction
// was committed, or rolled back with 1213.
func inParts(db *sql.DB, id, hot int64, blocks bool) (committed bool, err error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return false, err
	}
	defer conn.Close()
	for _, part := range []string{
		"start transaction",
		fmt.Sprintf("insert into one values (%d); select id from hot where id = %d for update; do sleep(0.001)", id, hot),
		fmt.Sprintf("insert into two values (%d); update hot set n = n + 1 where id = %d; do sleep(0.001)", id, hot),
		fmt.Sprintf("do sleep(0.001); insert into three values (%d)", id),
		"commit",
	} {
		statements := strings.Split(part, "; ")
		if blocks && len(statements) > 1 {
			statements = []string{"begin not atomic " + part + "; end"}
		}
		for _, text := range statements {
			if _, err := conn.ExecContext(context.Background(), text); galeraCode(err) == 1213 {
				_, err = conn.ExecContext(context.Background(), "rollback")
				return false, err
			} else if err != nil {
				return false, fmt.Errorf("%s: %w", text, err)
			}
		}
	}
	return true, nil
}

func idsIn(t *testing.T, db *sql.DB, table string) (ids []int64) {
	t.Helper()
	rows, err := db.Query("select id from " + table + " order by id")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int64
		must(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	must(t, rows.Err())
	return ids
}
