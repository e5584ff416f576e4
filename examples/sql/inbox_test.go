package sql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	ours "github.com/dibs-queue/dibs/mysql"
)

const refusedByInbox = "4025 | CONSTRAINT `inbox_priority_is_0_to_32767` failed for "

var inboxPrograms = map[string]program{
	"PDO":     {"php", []string{"-r", "exit(extension_loaded('pdo_mysql') ? 0 : 1);"}, "inbox_pdo.php", refusedByInbox},
	"Laravel": {"php", []string{"-r", "require 'Illuminate/Database/autoload.php'; exit(extension_loaded('pdo_mysql') ? 0 : 1);"}, "inbox_laravel.php", refusedByInbox},
	"PyMySQL": {"/usr/bin/python3", []string{"-c", "import pymysql"}, "inbox_pymysql.py", refusedByInbox},
	"mysql2":  {"ruby", []string{"-r", "mysql2", "-e", "1"}, "inbox_mysql2.rb", refusedByInbox},
}

// On MariaDB a program writes an order and its job in one transaction, by a user that may do nothing with dibs' tables but insert
// into the inbox.
func TestOrderAndRowOfTheInboxAreOneTransaction(t *testing.T) {
	t.Parallel()
	for name, p := range inboxPrograms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "Laravel" && exec.CommandContext(t.Context(), p.interpreter, p.probe...).Run() != nil {
				t.Skip("needs the package php-illuminate-database, which not every system has")
			}
			p.needs(t)
			address := mytest.Address(t)
			store, err := ours.Open(t.Context(), address, ours.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			db, config := store.DB(), shopOf(t, store.DB(), address)
			if out := runOn(t, p, config); !strings.HasPrefix(out, p.says) {
				t.Errorf("for a wrong priority it says %q, want %q", out, p.says)
			}
			var id int64
			var items string
			if err := db.QueryRowContext(t.Context(), "select min(id), group_concat(item) from orders").Scan(&id, &items); err != nil || items != "a lamp" {
				t.Errorf("the orders are %q, %v, want a lamp alone", items, err)
			}
			jobs, err := store.Claim(t.Context(), dibs.ClaimRequest{Queue: "mail", Worker: "w", N: 10})
			isConfirmed(t, jobs, err, id)
			if found, err := store.Check(t.Context()); err != nil || len(found) > 0 {
				t.Errorf("check: %q, %v", found, err)
			}
		})
	}
}

// shopOf makes the table of a shop and its user.
func shopOf(t *testing.T, db *sql.DB, address string) *mysql.Config {
	t.Helper()
	config, err := mysql.ParseDSN(address)
	if err != nil {
		t.Fatal(err)
	}
	config.User, config.Passwd = "shop_"+strings.ToLower(rand.Text()), rand.Text()
	for _, statement := range []string{
		"create table orders (id bigint auto_increment primary key, item text not null)",
		"create user " + config.User + "@'%' identified by '" + config.Passwd + "'",
		"grant select, insert on orders to " + config.User + "@'%'",
		"grant insert on dibs_inbox to " + config.User + "@'%'",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	t.Cleanup(func() {
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), "drop user "+config.User+"@'%'"); err != nil {
			t.Error(err)
		}
	})
	return config
}

func runOn(t *testing.T, p program, config *mysql.Config) string {
	t.Helper()
	script, err := filepath.Abs(p.script)
	if err != nil {
		t.Fatal(err)
	}
	needs.Files(t, script)
	host, port, _ := strings.Cut(config.Addr, ":")
	cmd := exec.CommandContext(t.Context(), p.interpreter, script)
	cmd.Env = append(
		os.Environ(), "DB_HOST="+host, "DB_PORT="+port, "DB_DATABASE="+config.DBName,
		"DB_USERNAME="+config.User, "DB_PASSWORD="+config.Passwd,
	)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", p.script, err, out)
	}
	return string(out)
}
