-- Purpose: as admit.sql, and give the jobs turns.
-- Parameters: ?1 queue, ?2 group, ?3 how many, ?4 a JSON array of turns to take over, each [turn, admitted],
--   ?5 the turn after these, ?6 number of the admission.
-- Columns out: none.
-- Concurrency: as admit.sql.
update dibs_job
set
  gate = 0,
  turn = coalesce(json_extract(?4, '$[' || (b.nth - 1) || '][0]'), ?5 + b.nth - 1 - json_array_length(?4)),
  admitted = coalesce(json_extract(?4, '$[' || (b.nth - 1) || '][1]'), ?6)
from (
  select id, row_number() over (order by priority, run_at, id) as nth
  from (
    select id, priority, run_at
    from dibs_job indexed by dibs_job_blocked
    where queue = ?1 and group_key = ?2 and gate = 1
    order by priority, run_at, id
    limit ?3
  )
) b
where dibs_job.id = b.id
