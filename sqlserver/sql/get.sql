-- Purpose: read one job in any state.
-- Parameters: ?1 id.
-- Columns out: false; id; how many jobs it waits for, 100,000 at most; the columns of the view, in its order.
-- Concurrency: one snapshot over both tables, so a job that is just finishing is
--   found in one of them; locks nothing.
declare
  @id bigint = ?1;
select
  0,
  v.id,
  (select count(*) from (select top (100000) 1 as one from dibs_edge e where e.child = @id and e.stage = 1) w),
  v.*
from dibs_live_job v
where v.id = @id
union all
select 0, v.id, 0, v.*
from dibs_ended_job v
where v.id = @id;
