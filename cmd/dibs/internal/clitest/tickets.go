package clitest

import (
	"bytes"
	"database/sql"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/open"
)

const tickets = `
create table tickets (
    ref varchar(40) primary key, prio int not null, customer text, status text not null default 'new',
    worker text, started bigint, until timestamp, mark varchar(36), tries int not null default 0, nb timestamp, error text, result text
);
insert into tickets (ref, prio, customer) values ('A-1', 2, 'ann'), ('<b> & "c"', 1, 'ann'), ('17', 3, 'bob'), ('d', 4, null);`

// Mappings with the three ways to fence a claim.
const (
	TicketsHead = `
table: tickets
id: ref
order: prio
payload: {columns: ref}
unfinished: status in ('new', 'busy')
completed: {set: {status: done, result: $result}}
lease: 30s
`
	ByToken = TicketsHead + `
available: status = 'new'
not_before: nb
group: {column: customer}
claim: {token: mark, locked_by: worker, started_at: started, timeout: until, attempts: tries, set: {status: busy}}
max_attempts: 3
dead: {set: {status: failed, error: $error}}
put_back: {set: {status: new}}
`
	ByStart = TicketsHead + `
available: status = 'new'
claim: {started_at: started, set: {status: busy}}
times: unix_ms
put_back: {set: {status: new}}
`
	BySide = TicketsHead + `
side_table: true
group: {column: customer}
max_attempts: 3
backoff: {base: 1h, max: 1h, factor: 1}
`
)

func (x *TicketTable) Exec(text string) {
	x.test.Helper()
	for _, statement := range strings.Split(text, ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := x.SQL.Exec(statement); err != nil {
			x.test.Fatal(err)
		}
	}
}

// WithTable adds the flag --table to arguments.
func (x *TicketTable) WithTable(args ...string) []string {
	if i := len(args); args[0] == "work" {
		for i = range args {
			if args[i] == "--" {
				break
			}
		}
		return append(append(append([]string{}, args[:i]...), "--table", x.Mapping), args[i:]...)
	}
	return append(args, "--table", x.Mapping)
}

// Status lists the rows as ref=status.
func (x *TicketTable) Status() string {
	x.test.Helper()
	rows, err := x.SQL.Query("select ref, status from tickets order by prio")
	if err != nil {
		x.test.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var ref, status string
		if err := rows.Scan(&ref, &status); err != nil {
			x.test.Fatal(err)
		}
		all = append(all, ref+"="+status)
	}
	if err := rows.Err(); err != nil {
		x.test.Fatal(err)
	}
	return strings.Join(all, " ")
}

// TicketTable is another program's table in the database of a test, and a mapping for it.
type TicketTable struct {
	test    *testing.T
	Mapping string
	SQL     *sql.DB
}

// MakeTickets creates the table and the mapping.
func MakeTickets(c *CLI, mapping string) *TicketTable {
	c.T.Helper()
	a := cmdline.NewApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	a.DBFlag = open.URL(c.DB)
	db, err := a.SQLDB(c.T.Context())
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { _ = db.Close() })
	x := &TicketTable{test: c.T, Mapping: c.Write("mapping.yaml", mapping), SQL: db}
	x.Exec(tickets)
	return x
}

// ByStatusBeside is a mapping that tells rows by their status beside others.
const ByStatusBeside = TicketsHead + `
available: status = 'new'
claim: {set: {status: busy}}
side_table: true
put_back: {set: {status: new}}
`
