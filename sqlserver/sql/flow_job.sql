-- Purpose: find the flow of a job.
-- Parameters: ?1 id.
-- Columns out: the flow or 0; the state.
-- Concurrency: a plain read of one snapshot; locks nothing.
declare
  @id bigint = ?1;
select
  coalesce(j.flow, 0),
  case when j.gate = 3 then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end collate Latin1_General_100_BIN2_UTF8
from dibs_job j
where j.id = @id
union all
select
  coalesce(f.flow, 0),
  f.state
from dibs_finished f
where f.id = @id;
