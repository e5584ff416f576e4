package database

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
)

// onMariaDB reports whether facts are about a MariaDB server.
func onMariaDB(all []admin.Fact) bool {
	return slices.ContainsFunc(all, func(f admin.Fact) bool { return f.Name == "mariadb" })
}

// ofMariaDB words what is wrong on a MariaDB server.
func (d *medic) ofMariaDB(f admin.Fact, all []admin.Fact) (severity, text, next string) {
	if !onMariaDB(all) {
		return "", "", ""
	}
	switch f.Name {
	case "inbox":
		return severityWrong, fmt.Sprintf("%s in the inbox, the first for %s: neither a worker nor dibs serve enqueues what stands there", words.Verb(f.N, "row stands", "rows stand"), words.Roughly(f.Age)),
			"dibs serve"
	case "setting":
		return mariaDBSetting(f)
	case "connections":
		return wrongIf(f.N*20 >= f.Of*19), fmt.Sprintf("%s of %s connections of the server are in use; beyond the last one workers wait their turn, or get errors", words.Count(f.N), words.Count(f.Of)),
			"select user, db, count(*) from information_schema.processlist group by 1, 2 order by 3 desc;"
	case "refused_connections":
		return severityNote, fmt.Sprintf("since its start the server has refused %s, as all %s were in use", words.Plural(int(f.N), "connection"), words.Count(f.Of)),
			"set global max_connections = " + fmt.Sprint(2*f.Of) + "; -- and in the server's configuration"
	case "history":
		return wrongIf(f.N >= 1_000_000), fmt.Sprintf("the server keeps %s old versions of rows%s: claims read past them, and become slow", words.Count(f.N), keepsVersions(all)),
			"select trx_mysql_thread_id, trx_started, trx_query from information_schema.innodb_trx order by trx_started limit 5;"
	case "engine":
		return severityWrong, fmt.Sprintf("the table %s is kept by the engine %s, which locks no rows and rolls nothing back: two workers may get one job", name(f.About), name(f.Text)),
			"alter table " + backquoted(f.About) + " engine = innodb;"
	}
	return ofMariaDBTransactions(f)
}

// backquoted writes a name in MariaDB's SQL.
func backquoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// keepsVersions names the oldest transaction, for which the server keeps versions of rows.
func keepsVersions(all []admin.Fact) string {
	var oldest admin.Fact
	for _, f := range all {
		if (f.Name == "idle_transaction" || f.Name == "long_transaction") && f.Age > oldest.Age {
			oldest = f
		}
	}
	if oldest.Name == "" {
		return ", which a transaction may still read or which it has not come to delete"
	}
	return fmt.Sprintf(", which the transaction of connection %d may still read", oldest.ID)
}

// ofMariaDBTransactions words transactions that are open for long, and who holds up others.
func ofMariaDBTransactions(f admin.Fact) (severity, text, next string) {
	detail := ""
	if f.Text != "" {
		detail = "; " + term.Clip(words.OneLine(strings.ReplaceAll(f.Text, "\n", " ")), 160)
	}
	kill := fmt.Sprintf("kill %d;", f.ID)
	holds := "the server keeps old versions of rows meanwhile"
	if f.Of > 0 {
		holds = fmt.Sprintf("it has locked %s, and %s", words.Plural(int(f.Of), "row"), holds)
	}
	switch f.Name {
	case "idle_transaction":
		idle := time.Duration(f.N) * time.Second
		return wrongIf(idle >= 5*time.Minute), fmt.Sprintf("connection %d of the server%s has had a transaction open for %s and does nothing in it for %s: %s%s",
			f.ID, inBrackets(f.About), words.Roughly(f.Age), words.Roughly(idle), holds, detail), kill
	case "long_transaction":
		return wrongIf(f.Age >= time.Hour), fmt.Sprintf("connection %d of the server%s has had a transaction open for %s: %s%s", f.ID, inBrackets(f.About), words.Roughly(f.Age), holds, detail),
			fmt.Sprintf("kill query %d;", f.ID)
	case "prepared_transaction":
		return wrongIf(f.Age >= 5*time.Minute), fmt.Sprintf("a prepared transaction is open for %s: %s", words.Roughly(f.Age), holds), "xa recover; -- then xa rollback, or xa commit"
	case "lock":
		return severityWrong, fmt.Sprintf("connection %d of the server holds up %s at the table %s, for %s (connection %d waits)%s", f.ID, words.Plural(int(f.N), "other"), name(f.About), words.Roughly(f.Age), f.Of, detail), kill
	case "table_lock":
		return severityWrong, fmt.Sprintf("%s for the lock of a table, the longest for %s (connection %d is one)%s", words.Verb(f.N, "connection waits", "connections wait"), words.Roughly(f.Age), f.Of, detail),
			"show full processlist; -- an open transaction that has used the table holds it"
	}
	return "", "", ""
}

// mariaDBSettings say what a setting of a MariaDB server does to dibs.
var mariaDBSettings = map[string]struct{ severity, means string }{
	"innodb_doublewrite":             {severityWrong, "a crash of the server's machine may damage pages"},
	"innodb_force_recovery":          {severityWrong, "the server was started to save what can be read, and may refuse or lose writes"},
	"innodb_flush_log_at_trx_commit": {severityNote, "a crash may lose the last commits: jobs that were enqueued are gone, and completed ones run again"},
	"sync_binlog":                    {severityNote, "after a crash of the server's machine, replicas may lack or have jobs that the server has not"},
	"read_only":                      {severityWrong, "nothing can be enqueued, claimed or finished here; if this is a replica, name the primary server"},
	"innodb_read_only":               {severityWrong, "nothing can be enqueued, claimed or finished"},
	"innodb_lock_wait_timeout":       {severityNote, "so long a call of dibs in a transaction of yours waits for a lock, in seconds"},
	"max_statement_time":             {severityNote, "it may cut off sweeps and checks of large queues"},
	"innodb_buffer_pool_size":        {severityNote, "large queues are read from disk again and again"},
	"max_allowed_packet":             {severityNote, "jobs with the largest payloads that queues allow cannot be enqueued"},
	"tx_isolation":                   {severityNote, "whatever other programs read is locked, so claims pass over jobs that somebody only looks at; dibs itself uses READ COMMITTED"},
	"sql_mode":                       {severityNote, "statements of dibs in transactions of yours may be understood otherwise; dibs' own connections have their own mode"},
}

func mariaDBSetting(f admin.Fact) (severity, text, next string) {
	s, ok := mariaDBSettings[f.About]
	if !ok {
		return "", "", ""
	}
	value := f.Text
	switch f.About {
	case "max_statement_time":
		value += " s"
		s.severity = wrongIf(f.N < 2)
	case "innodb_buffer_pool_size":
		value = size(f.N)
	case "max_allowed_packet":
		value = fmt.Sprintf("%s, and payloads may have %s", size(f.N), size(f.Of))
	case "innodb_doublewrite", "read_only", "innodb_read_only":
		value = map[string]string{"0": "off", "1": "on"}[f.Text]
	}
	better := map[string]string{
		"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "read_only": "0", "innodb_lock_wait_timeout": "50", "max_statement_time": "0",
		"max_allowed_packet": "67108864", "innodb_buffer_pool_size": "1073741824", "tx_isolation": "'READ-COMMITTED'", "sql_mode": "default",
	}[f.About]
	next = "set global " + f.About + " = " + better + "; -- and in the server's configuration"
	if better == "" {
		next = "select * from information_schema.system_variables where variable_name = " + literal(strings.ToUpper(f.About)) + "; -- to change it, edit the configuration and restart the server"
	}
	return s.severity, fmt.Sprintf("%s is %s: %s", f.About, name(value), s.means), next
}
