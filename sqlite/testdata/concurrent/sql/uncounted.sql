-- Purpose: count the running jobs of a queue that are not at gate 3, where claims count them.
-- Parameters: ?1 queue.
-- Columns out: count.
-- Concurrency: in the turn to claim, after count_running.sql: what is left are jobs that others hold. It locks nothing.
select count(*)
from dibs_job
where id in (
    select i.value
    from dibs_claim c, json_each(c.ids) i
    where c.queue = ?1
  )
  and queue = ?1 and token is not null and gate <> 3
