package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Features says what one database can and cannot do. The suite runs the cases that apply to
// it, and [Table] makes the README's table of databases from it.
type Features struct {
	Database string
	// Transactions names the ways in which a caller can begin a transaction for a dibs.Tx.
	// They are the keys of Setup.Begin.
	Transactions []string
	// OpenTx says that transactions which have enqueued, claimed or finished can stay open
	// while other writers go on. Without it, all other writers wait for such a transaction,
	// but readers do not.
	OpenTx bool
	// Notifies says that Store.Wakeups also wakes for jobs that other processes enqueue.
	// Without it, workers find these by polling.
	Notifies bool
	// Machines says that workers can run on many machines. Without it, all run on one.
	Machines bool
	// Proven says how far the store has been tried on the database itself. Empty: its tests run on it at each commit.
	Proven string
}

// These are the databases of this module.
var (
	SQLite = Features{
		Database:     "SQLite",
		Transactions: []string{"sql"},
	}
	PostgreSQL = Features{
		Database:     "PostgreSQL",
		Transactions: []string{"sql", "pgx"},
		OpenTx:       true,
		Notifies:     true,
		Machines:     true,
	}
	MariaDB = Features{
		Database:     "MariaDB",
		Transactions: []string{"sql"},
		OpenTx:       true,
		Machines:     true,
	}
	SQLServer = Features{
		Database:     "SQL Server",
		Transactions: []string{"sql"},
		OpenTx:       true,
		Machines:     true,
		Proven: "SQL Server: experimental; its makers have not run it on a SQL Server. " +
			"`dibs torture --db sqlserver://…` tells in two minutes whether it keeps its promises on yours.",
	}
)

// Table returns a Markdown table of what the databases can do, and how far each is proven unless all are at each commit.
func Table(databases ...Features) string {
	type row struct {
		name string
		cell func(Features) string
	}
	rows := []row{
		{"callers' own transactions", func(f Features) string { return transactionNames(f.Transactions) }},
		{"claims never wait for open transactions", func(f Features) string { return yes(f.OpenTx, "no: one writer at a time") }},
		{"wake-ups across processes", func(f Features) string { return yes(f.Notifies, "no: they poll") }},
		{"workers on many machines", func(f Features) string { return yes(f.Machines, "no: processes of one machine") }},
	}
	if slices.ContainsFunc(databases, func(f Features) bool { return f.Proven != "" }) {
		rows = append(rows, row{"proven", func(f Features) string { return cmp.Or(f.Proven, "at each commit") }})
	}
	var b strings.Builder
	b.WriteString("| |")
	for _, f := range databases {
		fmt.Fprintf(&b, " %s |", f.Database)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(databases)+1) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, f := range databases {
			fmt.Fprintf(&b, " %s |", r.cell(f))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func yes(can bool, cannot string) string {
	if can {
		return "yes"
	}
	return cannot
}

func transactionNames(keys []string) string {
	types := map[string]string{"sql": "`*sql.Tx`", "pgx": "`pgx.Tx`"}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = types[k]
	}
	return strings.Join(names, ", ")
}
