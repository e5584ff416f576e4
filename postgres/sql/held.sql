-- Purpose: tell which tokens are still good, and whose jobs are being finished.
-- Parameters: arrays of equal length: $1 id, $2 token.
-- Columns out: id, whether an open transaction is finishing the job, in which case it
--   does not matter any more whether the lease has ended.
-- Concurrency: waits for nobody. Statements that finish a job lock its row for update;
--   all others lock it for no key update, which leaves room for the key share lock
--   here. That matters also for rows that they do not change: a claim that has seen a job
--   waiting locks it in its newest version, and only then finds it claimed.
with looked as materialized (
    select
        j.id,
        j.lease_until,
        not exists (
            select
            from dibs.job k
            where k.id = j.id
            for key share skip locked
        ) as finishing
    from unnest($1::bigint[], $2::uuid[]) as l (id, token)
    join dibs.job j on j.id = any (array[l.id]) and j.token = l.token
)
select id, finishing
from looked
where finishing or lease_until > statement_timestamp()
