-- Purpose: read a claimed job if a token still holds it.
-- Parameters: ?1 id, ?2 token, ?3 now (0: whether the lease has ended or not).
-- Columns out: queue, group, attempt, excused, max_attempts, run_at, claimed_at,
--   lease_until, worker, cancel_requested, errors.
-- Concurrency: this is the fence of all that a worker writes; the only write
--   transaction of the file, so the answer stays true until the write.
select
  queue,
  group_key,
  attempt,
  excused,
  max_attempts,
  run_at,
  claimed_at,
  lease_until,
  worker,
  cancel_requested,
  errors
from dibs_job
where id = ?1 and token = ?2 and lease_until > ?3
