-- Purpose: merge counts into one row per queue, and move what happened in each minute to the
--   history; delete what is too old there.
-- Parameters: $1 how many rows at most; $2 how many minutes of history are kept.
-- Columns out: how many rows were merged, and into how many.
-- Concurrency: in the turn of turn_sweep.sql, so nobody waits for a row of the history. Rows are
--   deleted and inserted as their sum in one statement, so every snapshot sees the same sums,
--   and what it deletes no other merge adds to the history. Rows of transactions that commit
--   later are merged the next time. Sums are taken modulo 1e18, and times that are yet to come are
--   left out: so one row with a time or a count that cannot be right stops no merge. Where all
--   sums are zero, as for a queue that was deleted, no row is left.
with clock as (
    select date_trunc('minute', statement_timestamp() - (interval '1 minute' * $2)) as kept_from
), old as (
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
    insert into dibs.tally (queue, at, waiting, blocked, running, completed, dead, cancelled)
    select
        queue,
        '-infinity',
        sum(waiting) % 1e18,
        sum(blocked) % 1e18,
        sum(running) % 1e18,
        sum(completed) % 1e18,
        sum(dead) % 1e18,
        sum(cancelled) % 1e18
    from old
    group by queue
    having coalesce(sum(waiting), 0) <> 0 or coalesce(sum(blocked), 0) <> 0 or coalesce(sum(running), 0) <> 0
        or coalesce(sum(completed), 0) <> 0 or coalesce(sum(dead), 0) <> 0 or coalesce(sum(cancelled), 0) <> 0
    returning id
), added as (
    insert into dibs.history as h (minute, queue, enqueued, claimed, succeeded, failed, died, wait_us, run_us)
    select
        date_trunc('minute', o.at),
        n.queue,
        coalesce(sum(o.enqueued), 0) % 1e18,
        coalesce(sum(o.claimed), 0) % 1e18,
        coalesce(sum(o.succeeded), 0) % 1e18,
        coalesce(sum(o.failed), 0) % 1e18,
        coalesce(sum(o.died), 0) % 1e18,
        coalesce(sum(o.wait_us), 0) % 1e18,
        coalesce(sum(o.run_us), 0) % 1e18
    from old o,
        lateral (values (o.queue), ('')) as n (queue)
    where o.at >= (select kept_from from clock) and o.at <= clock_timestamp()
        and coalesce(o.enqueued, o.claimed, o.succeeded, o.failed, o.died) is not null
    group by 1, 2
    on conflict (minute, queue) do update
    set
        enqueued = (h.enqueued + excluded.enqueued) % 1000000000000000000,
        claimed = (h.claimed + excluded.claimed) % 1000000000000000000,
        succeeded = (h.succeeded + excluded.succeeded) % 1000000000000000000,
        failed = (h.failed + excluded.failed) % 1000000000000000000,
        died = (h.died + excluded.died) % 1000000000000000000,
        wait_us = (h.wait_us + excluded.wait_us) % 1000000000000000000,
        run_us = (h.run_us + excluded.run_us) % 1000000000000000000
), forgotten as (
    delete from dibs.history
    where current_setting('dibs_turn.sweep', true) = 'true'
        and ctid = any (array(
            select ctid
            from dibs.history
            where minute < (select kept_from from clock)
            order by minute
            limit $1
        ))
)
select (select count(*) from old), (select count(*) from merged)
