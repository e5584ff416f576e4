package postgres_test

import (
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/postgres"
)

// describe lists what the schema holds, in words that are the same on every version of the server.
const describe = `
select format('%s %s', case c.relkind when 'r' then 'table' when 'v' then 'view' when 'S' then 'sequence' when 'c' then 'type' end, c.relname)
	|| case when c.reloptions is null then '' else format(' with (%s)', array_to_string(c.reloptions, ', ')) end as line, c.relname, 0, 0, ''
from pg_catalog.pg_class c
where c.relnamespace = 'dibs'::regnamespace and c.relkind in ('r', 'v', 'S', 'c')
union all
select format('    %s %s%s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
	case when a.attnotnull then ' not null' else '' end,
	case when a.attidentity <> '' then ' identity' else '' end,
	case when d.adbin is null then '' else ' default ' || pg_get_expr(d.adbin, d.adrelid) end,
	case when a.attcollation = '"C"'::regcollation then ' collate C' else '' end), c.relname, 1, a.attnum, ''
from pg_catalog.pg_class c
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_catalog.pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
where c.relnamespace = 'dibs'::regnamespace and c.relkind in ('r', 'v', 'c')
union all
select '    ' || regexp_replace(pg_get_indexdef(i.indexrelid), ' ON (ONLY )?dibs\.\S+ USING', ':'), t.relname, 2, 0, c.relname
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_class t on t.oid = i.indrelid
where t.relnamespace = 'dibs'::regnamespace
union all
select format('function %s(%s) returns %s%s', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
	case when p.prosecdef then ' as its owner, with ' || array_to_string(p.proconfig, ' and ') else '' end)
	|| case when has_function_privilege('public', p.oid, 'execute') then ' for everybody' else '' end, p.proname, 0, 0, ''
from pg_catalog.pg_proc p
where p.pronamespace = 'dibs'::regnamespace
union all
select format('    check %s', pg_get_constraintdef(k.oid)), c.relname, 3, 0, k.conname
from pg_catalog.pg_constraint k
join pg_catalog.pg_class c on c.oid = k.conrelid
where c.relnamespace = 'dibs'::regnamespace and k.contype in ('c', 'f')
order by 2, 3, 4, 5`

// The golden file is the sum of all migrations.
func TestSchema(t *testing.T) {
	t.Parallel()
	_, url := migrated(t, postgres.Options{})
	conn := connect(t, url)
	var text strings.Builder
	rows, err := conn.Query(t.Context(), describe)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line, nil, nil, nil, nil); err != nil {
			t.Fatal(err)
		}
		text.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	golden.Match(t, "schema.txt", text.String())
}
