-- Purpose: have the sweep look at a claim later: when the next of its leases ends, or
--   once the caller's transaction that made it has ended.
-- Parameters: ?1 token, ?2 when.
-- Columns out: token, ids as a JSON array.
-- Concurrency: the only write transaction of the file.
update dibs_claim
set check_at = ?2
where token = ?1
returning
  token,
  ids
