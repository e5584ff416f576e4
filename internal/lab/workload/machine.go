package workload

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/sqlite"
)

// Fact is a property of the machine or the database that influences the figures.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Machine describes this machine, and the file system of dir unless it is "". Most facts are known on Linux only.
func Machine(dir string) []Fact {
	list := []Fact{
		{"cores", fmt.Sprint(runtime.NumCPU())},
		{"system", runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()},
	}
	for _, fact := range []struct{ name, path, key string }{
		{"processor", "/proc/cpuinfo", "model name"},
		{"memory", "/proc/meminfo", "MemTotal"},
		{"kernel", "/proc/sys/kernel/osrelease", ""},
		{"load before", "/proc/loadavg", ""},
	} {
		value := line(fact.path, fact.key)
		switch words := strings.Fields(value); {
		case fact.name == "memory" && len(words) == 2: // kB
			if n, err := strconv.Atoi(words[0]); err == nil {
				value = fmt.Sprintf("%.1f GiB", float64(n)/(1<<20))
			}
		case fact.name == "load before" && len(words) > 3:
			value = strings.Join(words[:3], " ") // averages over 1, 5 and 15 minutes
		}
		if value != "" {
			list = append(list, Fact{fact.name, value})
		}
	}
	if disk := fileSystem(dir); dir != "" && disk != "" {
		list = append(list, Fact{"file system", disk})
	}
	return list
}

// line returns what follows key and a colon in a file, or its first line without a key.
func line(path, key string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, found := strings.Cut(lines.Text(), ":")
		if key == "" {
			return lines.Text()
		}
		if found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystem returns the kind and the device of dir's file system; one in memory keeps nothing.
func fileSystem(dir string) string {
	text, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return ""
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return ""
	}
	longest, kind := "", ""
	for mount := range strings.Lines(string(text)) {
		fields := strings.Fields(mount)
		if len(fields) < 3 {
			continue
		}
		inside, err := filepath.Rel(fields[1], dir)
		if err == nil && inside != ".." && !strings.HasPrefix(inside, "../") && len(fields[1]) >= len(longest) {
			longest, kind = fields[1], fields[2]+" on "+fields[0]
		}
	}
	return kind
}

// LiteSettings returns the settings of the SQLite file at a place.
func LiteSettings(ctx context.Context, place Place) (list []Fact, err error) {
	store, err := sqlite.Open(ctx, place.URL, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	names := []string{"journal_mode", "page_size", "server_version", "synchronous"}
	values := make([]string, len(names))
	row := store.DB().QueryRowContext(ctx, `select journal_mode, page_size, sqlite_version(), iif(synchronous = 2, 'full', synchronous)
		from pragma_journal_mode, pragma_page_size, pragma_synchronous`)
	if err := row.Scan(&values[0], &values[1], &values[2], &values[3]); err != nil {
		return nil, err
	}
	for i, name := range names {
		list = append(list, Fact{name, values[i]})
	}
	return list, nil
}

// MariaDBSettings returns the settings of a MariaDB server that influence durability and speed.
func MariaDBSettings(ctx context.Context, source string) (list []Fact, err error) {
	db, err := sql.Open("mysql", source)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `show global variables where variable_name in ('version', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin',
		'innodb_buffer_pool_size', 'innodb_log_file_size', 'innodb_doublewrite', 'max_connections')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var f Fact
		if err := rows.Scan(&f.Name, &f.Value); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, rows.Err()
}

// Settings returns the settings of the server that influence durability and speed.
func (s *Server) Settings(ctx context.Context) ([]Fact, error) {
	rows, err := s.pool.Query(ctx, `select name, current_setting(name) from pg_settings where name in (
		'server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'shared_buffers', 'max_wal_size',
		'max_connections', 'wal_level', 'autovacuum', 'lc_collate') order by name`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Fact])
}
