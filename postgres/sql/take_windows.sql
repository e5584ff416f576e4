-- Purpose: lock the periods of unique keys, so that nobody else enqueues jobs with these keys
--   and periods until this transaction ends; and read the clock.
-- Parameters: $1 queues, $2 keys, arrays of equal length without duplicates.
-- Columns out: now, read after all are locked and the transaction has its number; place in the arrays, from 1, of a key that no
--   period holds. One row with a null if there is none.
-- Concurrency: a period that is seen to last is only read. The others' rows are locked, or
--   made, in the order of the keys, so that two batches cannot wait for each other. A row
--   whose transaction is open is waited for, and then judged by what that has committed.
--   Later statements see all that was enqueued with these keys before.
with locked as (
    insert into dibs.unique_window (queue, unique_key, until)
    select n.queue, n.unique_key, '-infinity'
    from unnest($1::text[], $2::text[]) as n (queue, unique_key)
    where not exists (
        select
        from dibs.unique_window w
        where w.queue = n.queue and w.unique_key = n.unique_key and w.until > clock_timestamp()
        offset 0
    )
    order by n.queue, n.unique_key
    on conflict (queue, unique_key) do update
    set until = unique_window.until
    where unique_window.until <= clock_timestamp()
    returning queue, unique_key
)
select a.at, n.ord
from (
    select clock_timestamp() as at
    from (
        select count(*)
        from locked
    ) l
    where pg_current_xact_id() is not null
) a
left join (
    select k.ord
    from locked l
    join unnest($1::text[], $2::text[]) with ordinality as k (queue, unique_key, ord)
        on k.queue = l.queue and k.unique_key = l.unique_key
) n on true
