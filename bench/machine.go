package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// setting is one fact that the figures depend on.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// machine describes this one, as far as it is Linux.
func machine(dir string) []setting {
	list := []setting{
		{"cores", fmt.Sprint(runtime.NumCPU())},
		{"system", runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()},
	}
	for _, fact := range []struct{ name, path, key string }{
		{"processor", "/proc/cpuinfo", "model name"},
		{"memory", "/proc/meminfo", "MemTotal"},
		{"kernel", "/proc/sys/kernel/osrelease", ""},
		{"load before", "/proc/loadavg", ""},
	} {
		if value := line(fact.path, fact.key); value != "" {
			list = append(list, setting{fact.name, value})
		}
	}
	if disk := fileSystem(dir); disk != "" {
		list = append(list, setting{"file system", disk})
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

// fileSystem is the kind and the device of what dir is on: in memory nothing is durable.
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

// settings are those of the run itself.
func (b *bench) settings() []setting {
	list := []setting{
		{"rounds", fmt.Sprint(b.rounds)},
		{"scale", fmt.Sprint(b.scale)},
		{"pool", fmt.Sprintf("%d connections; River's has %d more, which dibs has beside its own", b.pool, besides)},
		{"handlers", fmt.Sprint(b.handlers)},
		{"payload", fmt.Sprintf("%d bytes", len(barePayload))},
	}
	info, _ := debug.ReadBuildInfo() // nil in a test
	if info == nil {
		return list
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/riverqueue/river", "github.com/jackc/pgx/v5", "modernc.org/sqlite":
			list = append(list, setting{m.Path, m.Version})
		}
	}
	return list
}

// serverSettings are those that durability and speed depend on.
func serverSettings(ctx context.Context, pool *pgxpool.Pool) ([]setting, error) {
	rows, err := pool.Query(ctx, `select name, current_setting(name) from pg_settings where name in (
		'server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'shared_buffers', 'max_wal_size',
		'max_connections', 'wal_level', 'autovacuum', 'lc_collate') order by name`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[setting])
}

// execute runs one statement on a connection of its own.
func execute(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}
