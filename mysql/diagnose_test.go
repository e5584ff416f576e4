package mysql_test

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// impatient is a store whose Diagnose reports at once what usually must have lasted for a time.
func impatient(t *testing.T, address string) *mysql.Store {
	t.Helper()
	s := openStore(t, address)
	s.Impatient()
	return s
}

// found returns the facts of a name, and checks that each statement could be run.
func found(t *testing.T, s *mysql.Store, name string) []admin.Fact {
	t.Helper()
	r, err := s.Diagnose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, skipped := range r.Skipped {
		t.Errorf("%s: %v", skipped.Part, skipped.Err)
	}
	return slices.DeleteFunc(r.Facts, func(f admin.Fact) bool { return f.Name != name })
}

// awaitFact looks until there is a fact of that name which test accepts: what the server shows of transactions may be old.
func awaitFact(t *testing.T, s *mysql.Store, name string, test func(f admin.Fact) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		facts := found(t, s, name)
		if slices.ContainsFunc(facts, test) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Diagnose reports %q as %+v", name, facts)
		}
	}
}

// session is a connection of a program, and its id.
func session(t *testing.T, db *sql.DB) (c *sql.Conn, id int64) {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err == nil {
		err = c.QueryRowContext(t.Context(), "select connection_id()").Scan(&id)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, id
}

func run(t *testing.T, c *sql.Conn, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := c.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// aside runs a statement that waits, until the test ends.
func aside(t *testing.T, c *sql.Conn, statement string) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.ExecContext(t.Context(), statement) // the end of the test cuts it off
	}()
	t.Cleanup(func() { <-ended })
}

// TestDiagnoseReportsNothingOfAHealthyDatabase also looks at the database's clock.
func TestDiagnoseReportsNothingOfAHealthyDatabase(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.NewServer(t, false).Address()) // the other server does not write its log at each commit
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}, {Queue: "q", Kind: "k", Group: "g"}}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Diagnose(t.Context())
	if err != nil || len(r.Facts) != 1 || r.Facts[0].Name != "mariadb" || !strings.Contains(r.Facts[0].Text, "MariaDB") || len(r.Skipped) > 0 || len(r.Looked) != 3 {
		t.Errorf("Diagnose reports %+v, %v", r, err)
	}
	if time.Since(r.Now).Abs() > time.Minute {
		t.Errorf("the database's clock shows %v", r.Now)
	}
	r, err = s.Diagnose(t.Context(), "jobs and upkeep")
	if err != nil || len(r.Facts) > 0 || len(r.Looked) != 1 {
		t.Errorf("of one part Diagnose reports %+v, %v", r, err)
	}
}

func TestDiagnoseFindsLongTransactions(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s := impatient(t, address)
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	db := callers(t, address)
	reader, readerID := session(t, db)
	busy, busyID := session(t, db)
	run(t, reader, "start transaction with consistent snapshot", "select count(*) from dibs_job")
	awaitFact(t, s, "idle_transaction", func(f admin.Fact) bool {
		return f.ID == readerID && strings.HasPrefix(f.About, "root@") && f.Of == 0 && f.Age >= 0 && f.Age < time.Hour
	})
	run(t, reader, "select count(*) from dibs_job for update")
	awaitFact(t, s, "idle_transaction", func(f admin.Fact) bool { return f.ID == readerID && f.Of > 0 })
	run(t, busy, "start transaction", "set @n = (select count(*) from dibs_queue)")
	aside(t, busy, "update dibs_queue set paused = sleep(1000)")
	awaitFact(t, s, "long_transaction", func(f admin.Fact) bool { return f.ID == busyID && strings.Contains(f.Text, "sleep(1000)") })
	run(t, reader, "rollback", fmt.Sprint("kill ", busyID))
	awaitNone(t, s, "idle_transaction", readerID)
}

func awaitNone(t *testing.T, s *mysql.Store, name string, id int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); slices.ContainsFunc(found(t, s, name), func(f admin.Fact) bool { return f.ID == id }); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("Diagnose reports %q after its end", name)
		}
	}
}

func TestDiagnoseFindsWhoHoldsUpOthers(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s := impatient(t, address)
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	db := callers(t, address)
	holder, holderID := session(t, db)
	waiter, waiterID := session(t, db)
	run(t, holder, "start transaction", "update dibs_queue set paused = 1")
	aside(t, waiter, "update dibs_queue set paused = 0")
	awaitFact(t, s, "lock", func(f admin.Fact) bool {
		return f.ID == holderID && f.Of == waiterID && f.N == 1 && strings.Contains(f.About, "dibs_queue") && f.Age >= 0
	})
	run(t, holder, "rollback")
	awaitNone(t, s, "lock", holderID)
	run(t, holder, "start transaction", "select count(*) from dibs_worker")
	ddl, ddlID := session(t, db)
	aside(t, ddl, "alter table dibs_worker add column extra int")
	awaitFact(t, s, "table_lock", func(f admin.Fact) bool { return f.Of == ddlID && strings.Contains(f.Text, "alter table dibs_worker") })
	run(t, holder, "rollback")
}

func TestDiagnoseFindsPreparedTransactions(t *testing.T) {
	t.Parallel()
	address := mytest.NewServer(t, false).Address() // a prepared transaction belongs to no database
	s := impatient(t, address)
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	c, _ := session(t, callers(t, address))
	run(t, c, "xa start 'x'", "update dibs_queue set paused = 1", "xa end 'x'", "xa prepare 'x'")
	_ = c.Raw(func(any) error { return sqldriver.ErrBadConn }) // it is closed, and the transaction stays
	awaitFact(t, s, "prepared_transaction", func(f admin.Fact) bool { return f.Of > 0 })
	other, _ := session(t, s.DB())
	run(t, other, "xa rollback 'x'")
	awaitNone(t, s, "prepared_transaction", 0)
}

// TestDiagnoseFindsSettingsThatHurt sets them on a server of its own.
func TestDiagnoseFindsSettingsThatHurt(t *testing.T) {
	t.Parallel()
	server := mytest.NewServer(t, false)
	s := openStore(t, server.Address())
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	c, _ := session(t, s.DB())
	setting := func(name string) []admin.Fact {
		return slices.DeleteFunc(found(t, s, "setting"), func(f admin.Fact) bool { return f.About != name })
	}
	for _, of := range []struct{ name, value, back string }{
		{"innodb_flush_log_at_trx_commit", "2", "1"},
		{"innodb_lock_wait_timeout", "1000", "50"},
		{"innodb_lock_wait_timeout", "0", "50"},
		{"max_statement_time", "1.5", "0"},
		{"tx_isolation", "'SERIALIZABLE'", "'REPEATABLE-READ'"},
		{"sql_mode", "'ORACLE'", "default"},
		{"max_allowed_packet", "1024", "16777216"},
		{"innodb_buffer_pool_size", "67108864", "268435456"},
		{"read_only", "1", "0"},
	} {
		if got := setting(of.name); len(got) > 0 {
			t.Errorf("before it is set, Diagnose reports %+v", got)
		}
		run(t, c, "set global "+of.name+" = "+of.value)
		if got := setting(of.name); len(got) != 1 || got[0].Text == "" {
			t.Errorf("with %s = %s Diagnose reports %+v", of.name, of.value, got)
		}
		run(t, c, "set global "+of.name+" = "+of.back)
	}
	run(t, c, "set global max_connections = 10")
	for range 5 { // the store has some, too
		session(t, s.DB())
	}
	if got := found(t, s, "connections"); len(got) != 1 || got[0].N < 8 || got[0].Of != 10 {
		t.Errorf("with nearly all connections in use Diagnose reports %+v", got)
	}
	others, err := sql.Open("mysql", server.Address())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err = others.Conn(t.Context()); err != nil {
			break
		}
	}
	if err := others.Close(); err != nil {
		t.Error(err)
	}
	run(t, c, "set global max_connections = 100")
	if got := found(t, s, "refused_connections"); len(got) != 1 || got[0].N < 1 || got[0].Of != 100 {
		t.Errorf("after it has refused a connection Diagnose reports %+v", got)
	}
	run(t, c, "create table dibs_other (i int) engine = myisam")
	if got := found(t, s, "engine"); len(got) != 1 || got[0].About != "dibs_other" || got[0].Text != "MyISAM" {
		t.Errorf("with a table of another engine Diagnose reports %+v", got)
	}
}

// TestDiagnoseFindsVersionsThatAreKept changes a row again and again while a transaction could still read it as it was.
func TestDiagnoseFindsVersionsThatAreKept(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.NewServer(t, false).Address())
	s.Impatient()
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	reader, _ := session(t, s.DB())
	writer, _ := session(t, s.DB())
	run(t, reader, "set transaction isolation level repeatable read", "start transaction with consistent snapshot")
	for i := range 300 {
		run(t, writer, fmt.Sprint("update dibs_queue set version = ", i+10))
	}
	awaitFact(t, s, "history", func(f admin.Fact) bool { return f.N >= 100 })
}

// TestDiagnoseSaysWhatItMayNotSee has a user without the privilege PROCESS look.
func TestDiagnoseSaysWhatItMayNotSee(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	config, err := driver.ParseDSN(address)
	if err != nil {
		t.Fatal(err)
	}
	root, _ := session(t, openStore(t, address).DB())
	user := "u" + config.DBName[len(config.DBName)-12:]
	run(t, root, "create user "+user+" identified by 'secret'", "grant all on "+config.DBName+".* to "+user)
	t.Cleanup(func() { _, _ = root.ExecContext(t.Context(), "drop user "+user) })
	config.User, config.Passwd = user, "secret"
	s := openStore(t, config.FormatDSN())
	r, err := s.Diagnose(t.Context())
	if err != nil || len(r.Looked) != 2 || len(r.Skipped) != 1 || r.Skipped[0].Part != "transactions and locks" || !errors.Is(r.Skipped[0].Err, dibs.ErrDenied) ||
		!strings.Contains(r.Skipped[0].Err.Error(), "PROCESS") {
		t.Errorf("Diagnose reports %+v, %v", r, err)
	}
	run(t, root, "grant process on *.* to "+user)
	again := openStore(t, config.FormatDSN())
	if r, err := again.Diagnose(t.Context()); err != nil || len(r.Skipped) > 0 {
		t.Errorf("with the privilege Diagnose reports %+v, %v", r, err)
	}
}
