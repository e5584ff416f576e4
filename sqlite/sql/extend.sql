-- Purpose: lengthen one lease.
-- Parameters: ?1 id, ?2 token, ?3 now, ?4 the lease's new end.
-- Columns out: cancel_requested; no row if the lease was lost.
-- Concurrency: fenced by the token and the lease's end. No index contains the changed columns.
update dibs_job
set lease_until = ?4
where id = ?1 and token = ?2 and lease_until > ?3
returning cancel_requested
