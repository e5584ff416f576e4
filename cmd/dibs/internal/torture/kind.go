package torture

import (
	"database/sql"
	"net/url"
	"strings"
)

// kind is what a run has to know of its database.
type kind struct {
	title   string
	version string // the query of its version
	free    string // the query of how many connections are free; empty for files
}

var (
	onPostgres = kind{
		"PostgreSQL", "show server_version",
		`select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- (select count(*)::int from pg_stat_activity where backend_type = 'client backend')`,
	}
	onMariaDB   = kind{"MariaDB", "select version()", "select @@max_connections - (select count(*) from information_schema.processlist)"}
	onSQLServer = kind{"SQL Server", "select convert(varchar(64), serverproperty('ProductVersion'))", "select @@max_connections - (select count(*) from sys.dm_exec_sessions where is_user_process = 1)"}
	onSQLite    = kind{"SQLite", "select sqlite_version()", ""}
)

func (r *run) kind() kind {
	if isMariaDB(r.URL) {
		return onMariaDB
	}
	if isSQLServer(r.URL) {
		return onSQLServer
	}
	file := r.Adopted != nil && r.Adopted.SQLite
	if r.Adopted == nil {
		_, file = r.DB.(interface{ DB() *sql.DB })
	}
	if file {
		return onSQLite
	}
	return onPostgres
}

// onServer reports whether the database is on a server.
func (r *run) onServer() bool { return r.kind().free != "" }

// onCluster reports whether the database is on several servers. Then connections pass through no proxies: a store chooses nodes by
// their addresses.
func (r *run) onCluster() bool {
	u, err := url.Parse(r.URL)
	return err == nil && isMariaDB(r.URL) && strings.Contains(u.Host, ",")
}

func isSQLServer(rawURL string) bool { return strings.HasPrefix(rawURL, "sqlserver://") }

func isMariaDB(rawURL string) bool {
	return strings.HasPrefix(rawURL, "mysql://") || strings.HasPrefix(rawURL, "mariadb://")
}
