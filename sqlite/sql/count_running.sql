-- Purpose: put the running jobs at gate 3, where claims count them, when their queue
--   gets a concurrency limit.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the transaction that sets the limit. It finds them in the log of
--   claims instead of reading all jobs.
update dibs_job
set gate = 3
where id in (
    select i.value
    from dibs_claim c, json_each(c.ids) i
    where c.queue = ?1
  )
  and queue = ?1 and token is not null
