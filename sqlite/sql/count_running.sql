-- Purpose: begin to count what runs when a queue gets a concurrency limit.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the transaction that sets the limit. It goes by the log of claims,
--   not through all jobs.
update dibs_job
set gate = 3
where id in (
    select i.value
    from dibs_claim c, json_each(c.ids) i
    where c.queue = ?1
  )
  and queue = ?1 and token is not null
