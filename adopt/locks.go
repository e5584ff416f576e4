package adopt

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/internal/qualify"
)

// SQL is Store.SQL for a mapping, without making its side table, and with what a claim
// locks: one of up to n rows is tried for that, and rolled back.
func SQL(ctx context.Context, db *sql.DB, m Mapping, n int) (string, error) {
	var text string
	err := trial(ctx, db, m, func(s *Store, q querier) error {
		start := time.Now()
		jobs, err := s.tryClaim(ctx, q, n)
		took := time.Since(start)
		if err != nil {
			return err
		}
		served, err := s.plan.d.served(ctx, q, s)
		if err != nil {
			return err
		}
		locks, err := s.plan.d.locks(ctx, q, s.plan, len(jobs))
		if err != nil {
			return err
		}
		var b strings.Builder
		b.WriteString(s.text(served))
		fmt.Fprintf(&b, "\n-- == locks ==\n-- A claim of %d rows was tried, and rolled back. It took %.2f ms, and held until its end:\n", len(jobs), float64(took.Microseconds())/1000)
		for _, l := range locks {
			fmt.Fprintf(&b, "-- * %s\n", l)
		}
		text = b.String()
		return nil
	})
	return text, classify("sql", err)
}

// What the transaction of this connection holds, apart from its rows: the strongest on each.
var postgresLocks = qualify.Text(`
select
    case when l.locktype = 'relation' then 'table ' || t.relname else l.locktype || ' lock' end,
    (array_agg(l.mode order by array_position(array['AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock',
        'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'], l.mode) desc))[1]
from pg_locks l
left join pg_index i on i.indexrelid = l.relation
left join pg_class t on t.oid = coalesce(i.indrelid, l.relation)
left join pg_namespace n on n.oid = t.relnamespace
where l.pid = pg_backend_pid() and l.granted and l.locktype in ('relation', 'advisory')
and not coalesce(n.nspname, '') in ('pg_catalog', 'pg_toast')
group by 1
order by 1`)

var lockMeans = map[string]string{
	"AccessShareLock":  "stops only DROP and ALTER TABLE",
	"RowShareLock":     "stops only DROP and ALTER TABLE",
	"RowExclusiveLock": "stops only DROP, ALTER TABLE and CREATE INDEX",
	"ExclusiveLock":    "other claims pass over the groups of these rows, or of a queue with a limit come back later, and do not wait: one at a time counts what runs",
}

func (postgresDialect) locks(ctx context.Context, q querier, p *plan, n int) ([]string, error) {
	rows, err := queryAll(ctx, q, postgresLocks)
	var all []string
	for _, r := range rows {
		means := lockMeans[r[1]]
		if means == "" {
			means = "of making the side table, which was not there"
		}
		all = append(all, fmt.Sprintf("%s, %s: %s", r[0], r[1], means))
	}
	if n > 0 {
		all = append(all, fmt.Sprintf("%d rows of %s, FOR UPDATE: other claims pass over them; who changes them waits", n, p.on.name))
	}
	return all, err
}

func (sqliteDialect) locks(context.Context, querier, *plan, int) ([]string, error) {
	return []string{"the write lock of the file, of which there is one: other writers wait, readers do not where journal_mode is wal"}, nil
}
