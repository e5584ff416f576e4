-- Purpose: find tables of the schema that vacuum does not keep small.
-- Parameters: $1 the schema, as it is written in SQL; $2 tables, and $3 the settings that
--   migrations gave them.
-- Columns out: name of the finding; table; 0; dead rows or bytes; live rows; time since the last
--   vacuum in microseconds, 0 if there was none; detail.
--   dead_rows: many dead rows; detail when the last vacuum was unknown
--   autovacuum_off: autovacuum leaves the table alone
--   table_settings: detail lists settings that the table no longer has
--   bloat: the table takes over a page for each of its rows
-- Concurrency: a plain read of the catalogs and of the sizes of files. Waits for who locks a
--   table exclusively, for a second at most.
with t as materialized (
    select
        c.oid,
        c.relname::text as name,
        coalesce(c.reloptions, '{}') as options,
        coalesce(s.n_dead_tup, 0) as dead,
        greatest(coalesce(s.n_live_tup, 0), c.reltuples::bigint, 0) as live,
        greatest(s.last_vacuum, s.last_autovacuum) as vacuumed
    from pg_class c
    left join pg_stat_all_tables s on s.relid = c.oid
    where c.relnamespace = to_regnamespace($1::text)::oid and c.relkind = 'r'
)
select 'dead_rows', name, 0::bigint, dead, live, coalesce(date_part('epoch', clock_timestamp() - vacuumed) * 1000000, 0), ''
from t
where dead > 2000000 or (dead > 100000 and dead > live and coalesce(vacuumed < (clock_timestamp() - interval '10 minutes'), true))
union all
select 'autovacuum_off', name, 0, dead, live, 0, o.option_value
from t
cross join lateral pg_options_to_table(t.options) as o
where o.option_name = 'autovacuum_enabled' and not o.option_value::boolean
union all
select 'table_settings', t.name, 0, 0, 0, 0, string_agg(e.setting, ', ' order by e.setting)
from unnest($2::text[], $3::text[]) as e (name, setting)
join t on t.name = e.name
where not (e.setting = any (t.options))
group by t.name
union all
select 'bloat', b.name, 0, b.bytes, b.live, 0, ''
from (
    select name, live, pg_relation_size(oid) as bytes
    from t
) b
where b.bytes > 67108864 and b.bytes > (b.live * 8192)
