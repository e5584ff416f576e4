-- Purpose: take back the completion of jobs that the same transaction claimed, so
--   that another outcome can be written for them.
-- Parameters: $1 ids, $2 token, $3 lease in microseconds.
-- Columns out: id.
-- Concurrency: the rows are not committed; nobody else sees them.
with gone as (
    delete from dibs.finished
    where id = any ($1::bigint[])
    returning *
), back as (
    insert into dibs.job (id, queue, kind, payload, metadata, priority, run_at, gate, attempt, excused, max_attempts, group_key, unique_key, unique_until, unique_held, worker, created_at, claimed_at, errors, token, lease_until)
    select
        g.id,
        g.queue,
        g.kind,
        g.payload,
        g.metadata,
        g.priority,
        g.run_at,
        case when q.concurrency > 0 then 3 else 0 end,
        g.attempt,
        g.excused,
        g.max_attempts,
        g.group_key,
        g.unique_key,
        g.unique_until,
        coalesce(g.unique_until = 'finished', false),
        g.worker,
        g.created_at,
        g.claimed_at,
        g.errors,
        $2,
        statement_timestamp() + $3::bigint * interval '1 microsecond'
    from gone g
    join dibs.queue q on q.name = g.queue
    returning id
), counted as (
    insert into dibs.tally (queue, running, completed, succeeded, run_us)
    select
        queue,
        count(*),
        - count(*),
        - count(*),
        - sum(extract(epoch from finished_at - claimed_at) * 1000000)::bigint
    from gone
    group by queue
)
select id
from back
