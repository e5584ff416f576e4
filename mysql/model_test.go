package mysql_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/mysql"
)

// TestModel compares the store with the reference model. The long form:
//
//	DIBS_SOAK=1 go test ./mysql -run '^TestModel$' -v -timeout 0
func TestModel(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	model.Check(t, modelDatabases(t))
}

// modelDatabases empties one database for each run, as making all tables takes longer than a run. Its store stays.
func modelDatabases(t testing.TB) model.Maker {
	address := mytest.Address(t)
	other := callers(t, address)
	var s *mysql.Store
	another := func() (_ admin.Database, err error) {
		if s != nil {
			err = s.Close()
		}
		if err == nil {
			s, err = mysql.Open(t.Context(), address, mysql.Options{MaxConns: 2})
		}
		return s, err
	}
	if _, err := another(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return func(t model.TB) model.Database {
		if err := empty(t, other); err != nil {
			t.Fatalf("%v", err)
		}
		return model.Database{
			Database: s, Lazy: true, Another: another,
			Pass: func(d time.Duration) error { return pass(t.Context(), s.DB(), d) },
		}
	}
}

// empty deletes the rows of all tables but those that say which tables there are and who the database is.
func empty(t model.TB, db *sql.DB) error {
	tables, err := db.QueryContext(t.Context(), "select table_name from information_schema.tables where table_schema = database() and table_type = 'BASE TABLE' and table_name not in ('dibs_migration', 'dibs_turn')")
	if err != nil {
		return err
	}
	defer tables.Close()
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			return err
		}
		if _, err := db.ExecContext(t.Context(), "delete from "+name); err != nil {
			return err
		}
	}
	return tables.Err()
}
