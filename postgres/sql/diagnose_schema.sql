-- Purpose: compare the schema with what the migrations have made.
-- Parameters: $1 the schema, as it is written in SQL; $2 kinds and $3 names of what they made:
--   index, constraint, view or function; $4 the newest version of the schema that this program knows.
-- Columns out: name of the finding; the object; 0; counts; 0; its table or kind.
--   missing: an object that is not there
--   invalid: an index or a constraint that is not in force
--   added_index: an index that no migration has made
--   unlogged: a table that a crash of the server empties
--   policies: a table whose row security hides rows
--   newer_schema: the schema has a later version
-- Concurrency: a plain read of the catalogs, which every role may read; locks nothing.
with made as materialized (
    select kind, name
    from unnest($2::text[], $3::text[]) as m (kind, name)
), relation as materialized (
    select c.oid, c.relname::text as name, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity
    from pg_class c
    where c.relnamespace = to_regnamespace($1::text)::oid
), there as materialized (
    select case when relkind = 'v' then 'view' else 'index' end as kind, name
    from relation
    where relkind in ('v', 'i')
    union all
    select 'constraint', k.conname::text
    from pg_constraint k
    where k.connamespace = to_regnamespace($1::text)::oid
    union all
    select 'function', p.proname::text
    from pg_proc p
    where p.pronamespace = to_regnamespace($1::text)::oid
)
select 'missing', m.name, 0::bigint, 0::bigint, 0::bigint, 0::double precision, m.kind
from made m
where not exists (select from there t where t.kind = m.kind and t.name = m.name)
union all
select 'invalid', r.name, 0, 0, 0, 0, 'index'
from pg_index i
join relation r on r.oid = i.indexrelid
where not (i.indisvalid and i.indisready)
union all
select 'invalid', k.conname::text, 0, 0, 0, 0, 'constraint'
from pg_constraint k
join relation r on r.oid = k.conrelid
where not k.convalidated
union all
select 'added_index', x.name, 0, 0, 0, 0, r.name
from pg_index i
join relation r on r.oid = i.indrelid
join relation x on x.oid = i.indexrelid
where not exists (select from made m where m.kind = 'index' and m.name = x.name)
union all
select 'unlogged', name, 0, 0, 0, 0, ''
from relation
where relkind = 'r' and relpersistence = 'u'
union all
select 'policies', name, 0, 0, 0, 0, ''
from relation
where relkind = 'r' and relrowsecurity
union all
select 'newer_schema', '', 0, max(g.version), $4::int, 0, ''
from dibs.migration g
having max(g.version) > $4::int
