-- Purpose: find the tokens that are still good, and the jobs that are being finished.
-- Parameters: arrays of equal length: $1 id, $2 token.
-- Columns out: id; whether an open transaction is finishing the job: if so, it does not
--   matter whether the lease has ended.
-- Concurrency: waits for no lock. Statements that finish a job lock its row for update; all
--   others lock it for no key update, beside which the key share lock here can be got. That
--   holds for rows that they do not change, too: a claim may lock a row and only then see
--   that the job is claimed.
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
