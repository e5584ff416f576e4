-- Purpose: write workers' entries of the register, and remove those of workers that were lost
--   long ago.
-- Parameters: $1 the entries, a JSON array of objects with id, name, host, pid, version, queues,
--   kinds, null for all, concurrency and state, $2 microseconds after which an unseen worker is removed.
-- Columns out: none.
-- Concurrency: each process writes its own rows. An old row whose worker is just coming back is
--   left to it.
with entry as (
    select n.id, n.name, n.host, n.pid, n.version, n.queues, n.kinds, n.concurrency, n.state
    from
        jsonb_to_recordset($1::jsonb) as n (
            id pg_catalog.uuid, name pg_catalog.text, host pg_catalog.text, pid int, version pg_catalog.text,
            queues pg_catalog.text[], kinds pg_catalog.text[], concurrency int, state pg_catalog.text
        )
),
gone as (
    delete from dibs.worker
    where id in (
        select w.id
        from dibs.worker w
        where
            not exists (select from entry e where e.id = w.id)
            and w.seen_at < (statement_timestamp() - ($2::bigint * interval '1 microsecond'))
        order by w.id
        for update skip locked
    )
)
insert into dibs.worker as w (id, name, host, pid, version, queues, kinds, concurrency, state, since, seen_at)
select id, name, host, pid, version, queues, kinds, concurrency, state, statement_timestamp(), statement_timestamp()
from entry
on conflict (id) do update
set
    queues = excluded.queues,
    kinds = excluded.kinds,
    concurrency = excluded.concurrency,
    state = excluded.state,
    seen_at = excluded.seen_at
