-- Purpose: find the claims that a worker of this name made in a queue.
-- Parameters: ?1 queue, ?2 worker.
-- Columns out: token, ids as a JSON array.
-- Concurrency: the only write transaction of the file. It reads the whole log of claims,
--   but only when a worker restarts.
select
  token,
  ids
from dibs_claim
where queue = ?1 and worker = ?2
