-- Purpose: have a new job hold its unique key for a period.
-- Parameters: ?1 queue, ?2 unique key, ?3 end of the period, ?4 job.
-- Columns out: none.
-- Concurrency: in the transaction in which window.sql found no such period; the key is locked.
insert into dibs_unique_window (queue, unique_key, until, job)
values (?1, ?2, ?3, ?4)
on duplicate key update
  until = values(until),
  job = values(job)
