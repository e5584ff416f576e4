-- Purpose: forget all but the newest changes.
-- Parameters: ?1 how many to keep.
-- Columns out: none.
-- Concurrency: the only write transaction of the file.
delete from dibs_audit
where id <= (select max(id) from dibs_audit) - ?1
