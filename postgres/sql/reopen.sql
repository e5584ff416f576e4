-- Purpose: take back the completion of a job that the same transaction claimed, so
--   that another outcome can be written for it.
-- Parameters: $1 id, $2 token, $3 lease in microseconds; then the job as it was
--   claimed: $4 queue, $5 kind, $6 payload, $7 metadata, $8 priority, $9 run_at,
--   $10 attempt, $11 excused, $12 max_attempts, $13 group, $14 unique key, $15 until when
--   it is held, $16 worker, $17 created_at, $18 claimed_at, $19 errors.
-- Columns out: none.
-- Concurrency: nothing of this is committed yet; the row of the live job that the
--   transaction deleted stays locked, so nobody else can act on it. But a savepoint may
--   have undone the claim, or this very statement: so it does nothing unless the
--   claim's own row, which the transaction has written too, still names the job.
with mine as materialized (
    update dibs.claim
    set ids = array_remove(ids, $1)
    where token = $2 and $1 = any (ids)
        and token = any (('{' || coalesce(current_setting('dibs_tx.claims', true), '') || '}')::uuid[])
    returning token
), gone as (
    delete from dibs.finished
    where id = $1 and exists (select from mine)
    returning id
), back as (
    insert into dibs.job (id, token, lease_until, queue, kind, payload, metadata, priority, run_at, gate, attempt, excused, max_attempts, group_key, unique_key, unique_until, unique_held, worker, created_at, claimed_at, errors)
    select
        $1::bigint,
        $2::uuid,
        statement_timestamp() + ($3::bigint * interval '1 microsecond'),
        q.name,
        $5,
        $6,
        $7,
        $8::smallint,
        $9::timestamptz,
        case when q.concurrency > 0 then 3 else 0 end,
        $10::int,
        $11::int,
        $12::int,
        $13,
        $14,
        $15,
        coalesce($15 = 'finished', false) and not exists (
            select
            from dibs.job h
            where h.queue = $4 and h.unique_key = $14 and h.unique_held
        ),
        $16,
        $17::timestamptz,
        $18::timestamptz,
        $19::jsonb
    from dibs.queue q
    where q.name = $4 and exists (select from mine)
)
insert into dibs.tally (queue, running, completed, succeeded)
select $4, 1, - (select count(*) from gone), -1
from mine
