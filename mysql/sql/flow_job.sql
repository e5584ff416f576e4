-- Purpose: find the flow of a job.
-- Parameters: ?1 id.
-- Columns out: the flow or 0; the state.
-- Concurrency: a plain read of one snapshot; locks nothing.
select
  coalesce(j.flow, 0),
  case when j.gate = 3 then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end
from dibs_job j
where j.id = ?1
union all
select
  coalesce(f.flow, 0),
  f.state
from dibs_finished f
where f.id = ?1
