-- Purpose: tell which tokens are still good, and whose jobs are being finished.
-- Parameters: arrays of equal length: $1 id, $2 token.
-- Columns out: id, whether an open transaction is finishing the job.
-- Concurrency: waits for nobody. Statements that finish a job lock its row for update;
--   all others lock it for no key update, which leaves room for the key share lock here.
select
    j.id,
    not exists (
        select
        from dibs.job k
        where k.id = j.id
        for key share skip locked
    )
from unnest($1::bigint[], $2::uuid[]) as l (id, token)
join dibs.job j on j.id = any (array[l.id]) and j.token = l.token and j.lease_until > statement_timestamp()
