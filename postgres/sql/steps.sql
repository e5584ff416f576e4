-- Purpose: read what the attempts of a job have done.
-- Parameters: $1 job; $2 token, or null to read without one; $3 tokens of claims that this transaction has made, or null
--   (complete.sql).
-- Columns out: whether the lease holds, name, value; one row with nulls for a job without steps. The first step first.
-- Concurrency: one snapshot. A claim can take a job only when the transaction has ended that wrote its last step
--   (put_step.sql locks the job), so its holder sees all of them.
select
    $2::uuid is null or exists (
        select
        from dibs.job j
        where j.id = $1::bigint and j.token = $2::uuid and (j.lease_until > statement_timestamp() or j.token = any ($3::uuid[]))
    ),
    s.name,
    s.value
from (values (1)) one
left join dibs.step s on s.job = $1::bigint
order by s.done_at, s.name
