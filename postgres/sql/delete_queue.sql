-- Purpose: delete a queue that nothing needs, with the settings of its groups.
-- Parameters: $1 queue; $2 whether periods of unique keys go with it; $3 whether to keep it,
--   whatever is found.
-- Columns out: whether it was deleted; what needs it: a job that has not ended, one that has, and,
--   unless they go, a unique key that is held for a period and when that ends. No row if there
--   is no such queue.
-- Concurrency: with the lock of lock_admit.sql, in a transaction of its own. It looks and deletes
--   in one snapshot: a job that is finished, requeued or deleted meanwhile is seen in one
--   of its tables, and what it deletes belongs to no job. An enqueue that looked at the settings
--   before, and commits after it, leaves a job in a queue without settings; enqueues that look
--   later make the queue anew first (the version of enqueue.sql). For the former the caller looks
--   afterwards (new_queues.sql), as do claims and mend.sql. Rows of the tally stay:
--   their sums are zero, and merge_tally.sql drops them. It waits for claims in open transactions, which
--   hold the row in turn.
with uses as materialized (
    select
        coalesce(
            (select j.id from dibs.job j where j.queue = $1 and j.gate = 0 limit 1),
            (select j.id from dibs.job j where j.queue = $1 and j.gate = 1 limit 1),
            (select j.id from dibs.job j where j.queue = $1 and j.gate = 2 limit 1),
            (select j.id from dibs.job j where j.queue = $1 and j.gate = 3 limit 1),
            (select j.id from dibs.job j where j.queue = $1 and j.gate = 5 limit 1)
        ) as live,
        (select f.id from dibs.finished f where f.queue = $1 limit 1) as ended
), held as materialized (
    select w.unique_key, w.until
    from dibs.unique_window w
    where w.queue = $1 and w.until > statement_timestamp() and not $2
    order by w.unique_key
    limit 1
), gone as (
    delete from dibs.queue
    where name = $1 and not $3
        and (select live is null and ended is null from uses)
        and not exists (select from held)
    returning name
), turns as (
    delete from dibs.turn
    where queue = any (array(select name from gone))
), limits as (
    delete from dibs.group_limit
    where queue = any (array(select name from gone))
), rates as (
    delete from dibs.rate
    where queue = any (array(select name from gone))
), starts as (
    delete from dibs.start
    where queue = any (array(select name from gone))
), keys as (
    delete from dibs.unique_window
    where queue = any (array(select name from gone))
), wakes as (
    delete from dibs.wake
    where queue = any (array(select name from gone))
), reached as (
    delete from dibs.reached
    where queue = any (array(select name from gone))
), lists as (
    delete from dibs.wake_list
    where queue = any (array(select name from gone))
)
select
    exists (select from gone),
    u.live,
    u.ended,
    h.unique_key,
    h.until
from dibs.queue q
cross join uses u
left join held h on true
where q.name = $1
