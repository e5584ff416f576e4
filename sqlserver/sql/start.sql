-- Purpose: note the starts of a claim for the rates of groups.
-- Parameters: ?1 queue, ?2 now, ?3 a JSON array with the group of each job.
-- Columns out: none.
-- Concurrency: appends a row in the transaction of the claim, so it waits for nobody.
declare
  @queue varbinary(255) = ?1,
  @now bigint = ?2,
  @groups nvarchar(max) = ?3;
insert into dibs_start (queue, at, group_keys)
values (@queue, @now, @groups);
