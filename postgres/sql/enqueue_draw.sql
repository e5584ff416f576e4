-- Purpose: begin an enqueue by COPY: draw the ids of its jobs, and read the clock.
-- Parameters: $1 how many jobs; $2 the queues' names and $3 the versions of their
--   settings by which the batch was checked.
-- Columns out: now; ids, ascending. No row if a queue's settings have another version.
-- Concurrency: takes no lock; ids that are drawn and not used leave a gap. "now" comes
--   after the transaction has its number, so that no job is due before that.
with clock as materialized (
    select clock_timestamp() as at
    where pg_current_xact_id() is not null
)
select
    (select at from clock),
    array_agg(nextval('dibs.job_id'))
from generate_series(1, $1::int)
where current_setting('transaction_isolation') <> 'read committed'
    or not exists (
        select
        from unnest($2::text[], $3::bigint[]) as k (name, version)
        where not exists (select from dibs.queue q where q.name = k.name and q.version = k.version offset 0)
    )
having count(*) > 0
