-- Purpose: write a worker's entry of the register, and remove those of workers that were lost
--   long ago.
-- Parameters: $1 id, $2 name, $3 host, $4 pid, $5 version, $6 queues, $7 kinds or null for
--   all, $8 concurrency, $9 state, $10 microseconds after which an unseen worker is removed.
-- Columns out: none.
-- Concurrency: each worker writes its own row. An old row whose worker is just coming back is
--   left to it.
with gone as (
    delete from dibs.worker
    where id in (
        select w.id
        from dibs.worker w
        where w.id <> $1 and w.seen_at < (statement_timestamp() - ($10::bigint * interval '1 microsecond'))
        order by w.id
        for update skip locked
    )
)
insert into dibs.worker as w (id, name, host, pid, version, queues, kinds, concurrency, state, since, seen_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, statement_timestamp(), statement_timestamp())
on conflict (id) do update
set
    state = excluded.state,
    seen_at = excluded.seen_at
