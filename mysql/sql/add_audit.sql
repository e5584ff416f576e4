-- Purpose: note what somebody has changed.
-- Parameters: ?1 who, ?2 what was done, ?3 to what, ?4 how many were changed, ?5 now.
-- Columns out: none.
-- Concurrency: appends a row, so it waits for nobody.
insert into dibs_audit (at, who, did, what, n)
values (?5, ?1, ?2, ?3, ?4)
