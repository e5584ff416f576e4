-- Purpose: have the groups that have no rate of their own follow their queue's.
-- Parameters: $1 queue.
-- Columns out: none.
-- Concurrency: in the turn of lock_admit.sql, right after set_queue.sql, before wake_groups.sql has all
--   groups admitted anew. What a group has saved up, or owes, stays.
with gone as (
    delete from dibs.rate
    where queue = $1 and group_key <> '' and n = 0
        and (select group_rate_n from dibs.queue where name = $1) = 0
)
update dibs.rate r
set
    step_ns = q.group_step_ns,
    slack_ns = q.group_slack_ns,
    not_before = null,
    held_until = null
from dibs.queue q
where q.name = $1 and q.group_rate_n > 0
    and r.queue = $1 and r.group_key <> '' and r.n = 0
