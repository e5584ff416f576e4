-- Purpose: merge counts: those of the window of statistics into one row per queue and
--   minute, older ones into one row per queue.
-- Parameters: $1 how many rows at most.
-- Columns out: how many rows were merged, and into how many.
-- Concurrency: in the turn of turn_sweep.sql. Rows are deleted and inserted as their sum in one
--   statement, so every snapshot sees the same sums. Rows of transactions that commit
--   later are merged the next time.
with old as (
    delete from dibs.tally
    where current_setting('dibs_turn.sweep', true) = 'true'
        and id = any (array(
            select id
            from dibs.tally
            order by id
            limit $1
        ))
    returning *
), merged as (
    insert into dibs.tally (queue, at, waiting, blocked, running, completed, dead, cancelled, enqueued, claimed, succeeded, failed, wait_us, run_us)
    select
        queue,
        case when at < (statement_timestamp() - interval '10 minutes') then '-infinity' else date_trunc('minute', at) end,
        sum(waiting),
        sum(blocked),
        sum(running),
        sum(completed),
        sum(dead),
        sum(cancelled),
        sum(enqueued),
        sum(claimed),
        sum(succeeded),
        sum(failed),
        sum(wait_us),
        sum(run_us)
    from old
    group by 1, 2
    returning id
)
select (select count(*) from old), (select count(*) from merged)
