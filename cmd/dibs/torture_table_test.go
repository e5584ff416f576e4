package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/broken"
	"github.com/dibs-queue/dibs/internal/needs"
)

// torture runs the torture of program, a dibs binary, on the tickets.
func (x *adopting) torture(program string, args ...string) (out string, code int) {
	x.T.Helper()
	args = append([]string{"torture", "--db", x.DB, "--table", x.Mapping, "--duration", "5s", "--workers", "3"}, args...)
	cmd := exec.CommandContext(x.T.Context(), program, args...)
	cmd.Env = append(os.Environ(), clitest.AsCommand+"=1", "TMPDIR="+x.T.TempDir())
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		x.T.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// fillTable inserts many ended rows and then many others, since a few rows are soon finished.
func (x *adopting) fillTable() {
	x.Exec("delete from tickets")
	for i := range 250 {
		x.Exec(fmt.Sprintf("insert into tickets (ref, prio, status) values ('done-%d', 1, 'done')", i))
	}
	for i := range 30 {
		x.Exec(fmt.Sprintf("insert into tickets (ref, prio, customer) values ('more-%d', %d, 'customer-%d')", i, i%4, i%5))
	}
}

// A shop's table with unique numbers besides the id, and with rows that a dead worker left.
const (
	invoices = `
create table invoices (
    id integer not null, inv_number varchar(40) not null unique, tenant integer not null, serial integer, status text not null, since timestamp, mark text, tries int not null default 0,
    primary key (tenant, serial), unique (id)
);
create unique index invoices_once on invoices (tenant, inv_number);
create unique index invoices_turn on invoices (tenant) where status = 'busy'`
	byMark = `
table: invoices
id: id
unfinished: status in ('new', 'busy')
available: status = 'new'
lease: 30s
group: {column: tenant}
claim: {token: mark, timeout: since, attempts: tries, set: {status: busy}}
completed: {set: {status: done}}
max_attempts: 3
dead: {set: {status: failed}}
put_back: {set: {status: new}}
`
)

// The torture creates rows of the copy though the table has unique numbers. Rows that dead workers
// left, which come back at a sweep, do not count as a broken order.
func TestTheTortureOfATableWithNumbersAndStaleRows(t *testing.T) {
	needs.Night(t, "TestTheTortureOfAnAdoptedTableKeepsAwayFromIt tries the same promises on another table")
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byMark)
		x.Exec(invoices)
		for i := range 30 {
			status := "'new', null"
			if i < 3 {
				status = "'busy', '2020-01-01 00:00:00'"
			}
			x.Exec(fmt.Sprintf("insert into invoices (id, inv_number, tenant, serial, status, since) values (%d, 'I-%d', %d, %d, %s)", i+1, i, i, i, status))
		}
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		out, code := x.torture(program)
		if code != cmdline.ExitOK || !strings.Contains(out, "every promise was kept") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
}

// An error about other constraints says that it is about the copy.
func TestTheTortureSaysWhatTheCopyRefuses(t *testing.T) {
	c := onSQLite(t)
	c.OK("migrate")
	x := adoptTickets(c, byMark)
	x.Exec(strings.Replace(invoices, "varchar(40) not null unique", "varchar(40) unique check (length(inv_number) < 4)", 1))
	x.Exec("insert into invoices (id, inv_number, tenant, serial, status) values (1, 'I-1', 1, 1, 'new')")
	args := x.WithTable("torture", "--duration", "5s")
	c.Refused(c.Run("", args...), cmdline.ExitFailure, args, "makes rows of its copy", "the copy refuses one", "CHECK")
}

func (x *adopting) count(query string) (n int) {
	x.T.Helper()
	if err := x.SQL.QueryRow(query).Scan(&n); err != nil {
		x.T.Fatal(err)
	}
	return n
}

// The torture changes only the copy, not the table.
func TestTheTortureOfAnAdoptedTableKeepsAwayFromIt(t *testing.T) {
	needs.Long(t)
	for name, mapping := range map[string]string{"token": clitest.ByToken, "side table": clitest.BySide} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(c *cli) {
				if (name == "side table") != strings.HasPrefix(c.DB, "sqlite:") {
					needs.Night(c.T, "each shape is tried on one database")
				}
				x := adoptTickets(c, mapping)
				x.fillTable()
				before, were := x.Status(), tables(c)
				program, err := os.Executable()
				if err != nil {
					c.T.Fatal(err)
				}
				out, code := x.torture(program)
				if code != cmdline.ExitOK || !strings.Contains(out, "every promise was kept") {
					c.T.Fatalf("exit code %d\n%s", code, out)
				}
				if after := x.Status(); after != before {
					c.T.Errorf("the table was\n%s\nand is\n%s", before, after)
				}
				if now := tables(c); now != were {
					c.T.Errorf("there are %d tables, and were %d", now, were)
				}
				if x.count("select count(*) from tickets where tries > 0 or mark is not null") > 0 {
					c.T.Error("rows of the table were claimed")
				}
			})
		})
	}
}

// The torture of an adopted table finds broken stores.
func TestTheTortureOfAnAdoptedTableFindsFaults(t *testing.T) {
	needs.Long(t)
	needs.Night(t, "TestTortureSaysWhatWasBroken shows that a broken promise is found")
	t.Parallel()
	fence := broken.Edit{File: "sql/sqlite/change.sql", Old: "where {{.KeyIs \"m\"}}\nand {{.HeldOrOwn \"m\"}}\n{{- else}}", New: "where {{.KeyIs \"m\"}}\n{{- else}}"}
	for _, test := range []struct {
		fault, found string
		edit         broken.Edit
	}{
		{"outcomes are not fenced", "A stale token changes nothing", fence},
		{"one more of a group may run", "no more rows run at once", broken.Edit{
			File: "sql/sqlite/claim.sql", Old: "p.dibs_place <= {{.Limit}}", New: "p.dibs_place <= {{.Limit}} + 1",
		}},
		{"the order is another", "Rows are claimed in the mapping's order", broken.Edit{
			File: "sql/sqlite/claim.sql", Old: "    order by {{.OrderBy \"p\"}}\n    limit", New: "    limit",
		}},
	} {
		t.Run(test.fault, func(t *testing.T) {
			dir := t.TempDir()
			root, err := filepath.Abs("../..")
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := broken.Patch{Store: "internal/adopted", Edits: []broken.Edit{test.edit}}.Overlay(root, dir)
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "dibs")
			build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			c := newCLI(t, "sqlite:"+filepath.Join(dir, "test.db"))
			c.OK("migrate")
			x := adoptTickets(c, clitest.ByToken)
			x.fillTable()
			var history, out string
			code := cmdline.ExitOK
			for try := 0; code == cmdline.ExitOK && try < 6; try++ { // on a slow machine a short run may show too little
				history = filepath.Join(dir, fmt.Sprint("history", try))
				out, code = x.torture(program, "--history", history, "--duration", fmt.Sprint(5<<try, "s"))
			}
			_, after, _ := strings.Cut(out, "✗ ")
			verdict, _, _ := strings.Cut(after, "\n\n")
			if code != cmdline.ExitBroken || !strings.Contains(strings.Join(strings.Fields(verdict), " "), test.found) {
				t.Errorf("exit code %d\n%s", code, out)
			}
			for _, want := range []string{"kept: the copy", "report this with the mapping"} {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			if kept, err := os.ReadFile(filepath.Join(history, "mapping.yaml")); err != nil || !bytes.Contains(kept, []byte("tickets")) {
				t.Errorf("%s, %v", kept, err)
			}
		})
	}
}

func TestWhatTheTortureOfAnAdoptedTableNeeds(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		c.Fails(cmdline.ExitUsage, "", []string{"torture", "--table", ""}, "--table is empty")
		c.Fails(cmdline.ExitUsage, "", x.WithTable("torture", "--pg-bin", "bin"), "--pg-bin", "--db")
		c.Fails(cmdline.ExitUsage, "", x.WithTable("torture", "--judge", "records"), "leave out --")
		c.Fails(cmdline.ExitUsage, "", []string{"torture", "--table", c.Write("lock.yaml", clitest.TicketsHead)}, "transaction")
		x.Exec("update tickets set status = 'done'")
		r := c.Run("", x.WithTable("torture", "--duration", "5s")...)
		c.Refused(r, cmdline.ExitUsage, nil, "no row that could be claimed")
	})
}
