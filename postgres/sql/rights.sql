-- Purpose: make the statements that give the role the rights of a worker that it lacks: one for all tables that lack the
--   same rights, one for the schema, one for the sequence.
-- Parameters: $1 the schema, as it is written in SQL.
-- Columns out: the statement, but for the role; whether a worker can work without these rights.
-- Concurrency: a plain read of the catalogs, which every role may read.
with needed (name, kind, rights) as (
    values
        ('job', 'r', array['select', 'insert', 'update', 'delete']),
        ('payload', 'r', array['select', 'insert', 'update', 'delete']),
        ('finished', 'r', array['select', 'insert', 'update', 'delete']),
        ('step', 'r', array['select', 'insert', 'update', 'delete']),
        ('claim', 'r', array['select', 'insert', 'update', 'delete']),
        ('wake', 'r', array['select', 'insert', 'update', 'delete']),
        ('wake_list', 'r', array['select', 'insert', 'update', 'delete']),
        ('edge', 'r', array['select', 'insert', 'update', 'delete']),
        ('ended_list', 'r', array['select', 'insert', 'update', 'delete']),
        ('reached', 'r', array['select', 'insert', 'update', 'delete']),
        ('tally', 'r', array['select', 'insert', 'update', 'delete']),
        ('history', 'r', array['select', 'insert', 'update', 'delete']),
        ('queue', 'r', array['select', 'insert', 'update']),
        ('rate', 'r', array['select', 'insert', 'update', 'delete']),
        ('start', 'r', array['select', 'insert', 'update', 'delete']),
        ('turn', 'r', array['select', 'insert', 'update', 'delete']),
        ('unique_window', 'r', array['select', 'insert', 'update', 'delete']),
        ('schedule', 'r', array['select', 'insert', 'update', 'delete']),
        ('worker', 'r', array['select', 'insert', 'update', 'delete']),
        ('group_limit', 'r', array['select', 'insert', 'update', 'delete']),
        ('migration', 'r', array['select']),
        ('job_id', 'S', array['usage']),
        ('admission', 'S', array['usage'])
), lacking (kind, object, rights, optional) as (
    select 'schema ', $1::text, 'usage', false
    where not has_schema_privilege(to_regnamespace($1::text)::oid, 'usage')
    union all
    select
        case when n.kind = 'S' then 'sequence ' else '' end,
        $1::text || '.' || n.name,
        string_agg(a.name, ', ' order by a.place),
        n.name = 'worker'
    from needed n
    join pg_catalog.pg_class c on c.relname = n.name::name and c.relnamespace = to_regnamespace($1::text)::oid
    cross join lateral unnest(n.rights) with ordinality as a (name, place)
    where not (case when n.kind = 'S' then has_sequence_privilege(c.oid, a.name) else has_table_privilege(c.oid, a.name) end)
    group by n.kind, n.name
)
select 'grant ' || rights || ' on ' || kind || string_agg(object, ', ' order by object), bool_and(optional)
from lacking
group by rights, kind
order by kind, min(object)
