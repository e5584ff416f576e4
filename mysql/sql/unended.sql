-- Purpose: find those of some jobs that have not ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id; whether it waits for others. In the array's order.
-- Concurrency: after follow.sql, in its transaction: a job that is live now is noted as followed.
select
  j.id,
  j.gate = 5
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
