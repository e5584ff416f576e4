-- Purpose: have a new job hold its unique key for a period.
-- Parameters: ?1 queue, ?2 unique key, ?3 end of the period, ?4 job.
-- Columns out: none.
-- Concurrency: in the transaction in which window.sql found no such period; the key is locked.
declare
  @queue varbinary(255) = ?1,
  @key varbinary(512) = ?2,
  @until bigint = ?3,
  @job bigint = ?4;
update dibs_unique_window
set
  until = @until,
  job = @job
where queue = @queue and unique_key = @key;
if @@rowcount = 0
  insert into dibs_unique_window (queue, unique_key, until, job)
  values (@queue, @key, @until, @job);
