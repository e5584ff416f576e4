package mytest

import (
	"database/sql"
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(M{m}.Run()) }

func TestEachAddressIsAFreshDatabaseThatIsDropped(t *testing.T) {
	t.Parallel()
	var first string
	t.Run("one", func(t *testing.T) {
		first = Address(t)
		run(t, first, "create table t (n int)")
	})
	second := open(t, Address(t))
	var n int
	if err := second.QueryRow("select count(*) from information_schema.tables where table_schema = database()").Scan(&n); err != nil || n != 0 {
		t.Errorf("a fresh database has %d tables, %v", n, err)
	}
	if err := open(t, first).Ping(); err == nil {
		t.Error("the database of an ended test is still there")
	}
}

func run(t *testing.T, address, statement string) {
	t.Helper()
	if _, err := open(t, address).Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
