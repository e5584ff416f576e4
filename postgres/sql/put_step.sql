-- Purpose: write that a step is done.
-- Parameters: $1 job, $2 token, $3 tokens of claims that this transaction has made, or null (complete.sql), $4 name,
--   $5 value, $6 how many steps a job may have, $7 of how many bytes in all.
-- Columns out: whether the lease holds; whether the step was done before; whether with this value; how many steps the job
--   has without this one, and their bytes. It is written if the lease holds, it was not done, and it fits in.
-- Concurrency: fenced by the token and the lease's end, in the newest version of the job's row. The row stays locked until
--   the transaction ends: until then no claim, sweep or finish can take the job, so a step is never written beside
--   the next attempt. The lock is the strongest, as in complete.sql, so that held.sql tells an extension of the lease that the job is
--   just being finished, and the extension does not wait. The holder of the lock is the only one that writes steps of this
--   job; a snapshot that is older than the lock may miss one that was just committed, and the primary key then fails the
--   statement, which the caller repeats.
-- The column stepped is in no index, so its update is heap-only; only the first step writes it.
with held as materialized (
    select j.id, j.stepped
    from dibs.job j
    where j.id = $1::bigint and j.token = $2::uuid and (j.lease_until > statement_timestamp() or j.token = any ($3::uuid[]))
    for update
), has as materialized (
    select
        count(*) filter (where s.name <> $4::text) as steps,
        coalesce(sum(octet_length(s.value)) filter (where s.name <> $4::text), 0)::bigint as bytes,
        bool_or(s.name = $4::text) as done,
        bool_or(s.name = $4::text and s.value = $5::text) as same
    from dibs.step s
    where s.job = $1::bigint
), put as (
    insert into dibs.step (job, name, value)
    select h.id, $4::text, $5::text
    from held h
    cross join has b
    where b.done is not true and b.steps < $6::int and (b.bytes + octet_length($5::text)) <= $7::bigint
    returning job
), marked as (
    update dibs.job j
    set stepped = true
    from held h
    where j.id = any (array[h.id]) and h.stepped is null and exists (select from put)
)
select
    exists (select from held),
    coalesce(b.done, false),
    coalesce(b.same, false),
    b.steps::int,
    b.bytes
from has b
