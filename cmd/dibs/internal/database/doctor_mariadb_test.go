package database

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// onMariaDBServer is a database of a server, and a pool on it that is not dibs'.
func onMariaDBServer(t *testing.T, address string) (*cli, *sql.DB) {
	t.Helper()
	config, err := driver.ParseDSN(address)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	c := newCLI(t, mariaDBURL(config))
	c.OK("migrate")
	return c, db
}

func mariaDBURL(config *driver.Config) string {
	return "mysql://" + url.UserPassword(config.User, config.Passwd).String() + "@" + config.Addr + "/" + config.DBName
}

// doctorSays runs the doctor until it has a finding of that name: what the server shows of transactions may be old.
func (c *cli) doctorSays(name string) ailment {
	c.T.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		all, _ := c.doctor()
		for _, f := range all {
			if f.Name == name {
				return f
			}
		}
		if time.Now().After(end) {
			c.T.Fatalf("the doctor says nothing of %s: %+v", name, all)
		}
	}
}

func TestDoctorOfAMariaDBServer(t *testing.T) {
	t.Parallel()
	c, db := onMariaDBServer(t, mytest.NewServer(t, false).Address())
	c.OK("enqueue", "mail", "1")
	c.Register("anna", 3, nil, "mail")
	if got := c.OK("doctor"); !strings.HasPrefix(got, "Nothing is wrong.\nLooked at: 1 queue, 1 worker, 0 schedules, jobs and upkeep, the server, transactions and locks,\nMariaDB 1") || strings.Contains(got, "Not looked at") {
		t.Errorf("dibs doctor writes\n%s", got)
	}
	for _, text := range []string{"set global innodb_flush_log_at_trx_commit = 2", "set global max_statement_time = 1"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	c.finds(severityNote, "setting", "set global innodb_flush_log_at_trx_commit = 1; -- and in the server's configuration", "innodb_flush_log_at_trx_commit is 2: a crash may lose the last commits")
	c.finds(severityWrong, "setting", "set global max_statement_time = 0; -- and in the server's configuration", "max_statement_time is 1 s: it may cut off sweeps")
	if _, err := db.Exec("set global max_statement_time = 0"); err != nil { // it would end the wait below
		t.Fatal(err)
	}
	holder, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	waiter, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer waiter.Close()
	var id int64
	if err := holder.QueryRowContext(t.Context(), "select connection_id()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"start transaction", "update dibs_queue set paused = 0, version = version + 1"} {
		if _, err := holder.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = waiter.ExecContext(t.Context(), "update dibs_queue set paused = 0") // it waits until the holder ends
	}()
	if f := c.doctorSays("lock"); f.Severity != severityWrong || f.Next != fmt.Sprintf("kill %d;", id) || !strings.Contains(f.Text, fmt.Sprintf("connection %d of the server holds up 1 other at the table", id)) {
		t.Errorf("the doctor says %+v", f)
	}
	if _, err := holder.ExecContext(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// TestDoctorSaysWhichPrivilegeItLacks has a user look who may not see others' transactions.
func TestDoctorSaysWhichPrivilegeItLacks(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	_, db := onMariaDBServer(t, address)
	config, err := driver.ParseDSN(address)
	if err != nil {
		t.Fatal(err)
	}
	config.User, config.Passwd = "d"+config.DBName[len(config.DBName)-12:], "secret"
	for _, text := range []string{"create user " + config.User + " identified by 'secret'", "grant all on " + config.DBName + ".* to " + config.User} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	defer db.Exec("drop user " + config.User) //nolint:errcheck // the server ends with the tests
	c := newCLI(t, mariaDBURL(config))
	got := strings.ReplaceAll(c.Run("", "doctor").Out, "\n", " ")
	want := fmt.Sprintf("Not looked at: transactions and locks: the user %q may not see them: you need (at least one of) the PROCESS privilege(s) for this operation; as root: grant process on *.* to '%s'@'%%'", config.User, config.User)
	if !strings.Contains(got, want) {
		t.Errorf("dibs doctor writes\n%s\nwithout\n%s", got, want)
	}
	away := newCLI(t, "mysql://root@127.0.0.1:1/x")
	away.Fails(cmdline.ExitUnavailable, "", []string{"doctor"}, "no MariaDB server answers")
}
