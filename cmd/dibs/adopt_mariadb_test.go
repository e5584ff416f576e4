//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/open"
)

// From a table of MariaDB to a mapping, and to rows that have run, as docs/adopt.md does it.
func TestAdoptOnMariaDB(t *testing.T) {
	t.Parallel()
	c := &cli{&clitest.CLI{T: t, DB: mytest.URL(t)}}
	db, err := open.SQL(t.Context(), open.URL(c.DB), open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range []string{
		`create table orders (
			id bigint unsigned auto_increment primary key,
			customer varchar(100) not null,
			cents int not null,
			status enum('new', 'shipping', 'shipped', 'failed') not null default 'new',
			created_at timestamp not null default current_timestamp,
			taken_by varchar(100),
			taken_at timestamp(3) null,
			attempts int unsigned not null default 0,
			problem text
		)`,
		"insert into orders (customer, cents) values ('Ann', 1999), ('Bob', 500), ('Ann', 12000), ('Cid', 0), ('Dan', 350)",
		"insert into orders (customer, cents, status) values ('Eve', 700, 'shipped')",
		"create table old (id int primary key) engine = MyISAM",
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	c.Fails(cmdline.ExitUsage, "", []string{"adopt", "init", "old"}, "MyISAM, which has no transactions")
	text := c.OK("adopt", "init", "orders")
	c.HasInOrder(text, "id: [id]", "unfinished: status in ('new', 'shipping')", "available: status = 'new'", "locked_by: taken_by", "status: failed")
	file := c.Write("orders.yaml", text)
	c.HasInOrder(c.OK("adopt", "check", file), "no index gives rows in the order of claims", "create index `dibs_orders_open` on", "(`status`, `created_at`, `id`)")
	c.HasInOrder(c.OK("adopt", "sql", file), "-- == claim ==", "for update skip locked", "-- == locks ==")
	c.HasInOrder(c.OK("adopt", "try", file, "-n", "2"), "Ann", "Bob", "nothing has changed")
	if r := c.Run("", "work", "--table", file, "--until-empty", "--", "sh", "-c", `if grep -q '"cents":0,'; then exit 100; fi`); r.Code != 0 {
		t.Errorf("work: %+v", r)
	}
	var states string
	if err := db.QueryRow("select group_concat(status order by id) from orders").Scan(&states); err != nil || states != "shipped,shipped,shipped,failed,shipped,shipped" {
		t.Errorf("the orders are %s, %v", states, err)
	}
	c.HasInOrder(c.OK("doctor", "--table", file), "1 row has ended as dead", "`orders`", "Not looked at: the server")
	c.HasInOrder(c.OK("stats", "--table", file), "orders")
	if got := c.OK("ls", "--table", file); strings.Contains(got, "waiting") {
		t.Errorf("rows are left:\n%s", got)
	}
	c.Fails(cmdline.ExitUsage, "", []string{"torture", "--table", file, "--duration", "5s"}, "only tables of PostgreSQL and SQLite can be tortured")
}
