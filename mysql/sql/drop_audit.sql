-- Purpose: forget all but the newest changes.
-- Parameters: ?1 how many to keep.
-- Columns out: none.
-- Concurrency: waits for nobody for long: entries are only added and deleted.
delete from dibs_audit
where id <= (select x.last from (select max(id) as last from dibs_audit) x) - ?1
