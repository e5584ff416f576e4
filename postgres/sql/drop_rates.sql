-- Purpose: delete the rows of groups that follow their queue's rate and have saved up all of it: a
--   group without a row counts as one of these.
-- Parameters: $1 queue; $2 looks at groups that come after this one, by name; $3 how many.
-- Columns out: the last group looked at; empty if there are no more.
-- Concurrency: in the turn of turn_admit.sql, and only then, after admit.sql, so nobody else makes or
--   changes these rows. A group keeps its row while a job of it has a place and is unclaimed, or is being
--   claimed, as not_before keeps claims off that began earlier; and while starts are not counted yet.
with looked as materialized (
    select
        r.ctid as rate_row,
        r.group_key,
        r.n = 0
            and r.full_ns <= ((extract(epoch from statement_timestamp()) * 1000000)::bigint * 1000)
            and coalesce(r.not_before, '-infinity') <= statement_timestamp()
            and r.held_until is null as full
    from dibs.rate r
    where r.queue = $1 and r.group_key > $2 and current_setting('dibs_turn.admit', true) = 'true'
    order by r.group_key
    limit $3
), gone as (
    delete from dibs.rate
    where ctid = any (array(
        select l.rate_row
        from looked l
        where l.full
            and not exists (
                select
                from dibs.job j
                where j.queue = $1 and j.group_key = l.group_key and j.gate in (0, 3) and j.group_key is not null
                    and j.token is null
                offset 0
            )
            and not exists (
                select
                from dibs.start s
                where s.queue = $1 and l.group_key = any (s.groups)
                offset 0
            )
    ))
)
select case when count(*) = $3 then max(group_key) else '' end
from looked
