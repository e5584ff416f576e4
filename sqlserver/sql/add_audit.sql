-- Purpose: note what somebody has changed.
-- Parameters: ?1 who, ?2 what was done, ?3 to what, ?4 how many were changed, ?5 now.
-- Columns out: none.
-- Concurrency: appends a row, so it waits for nobody.
declare
  @who nvarchar(max) = ?1,
  @did nvarchar(max) = ?2,
  @what nvarchar(max) = ?3,
  @n bigint = ?4,
  @now bigint = ?5;
insert into dibs_audit (at, who, did, what, n)
values (@now, @who, @did, @what, @n);
