-- Purpose: read one job in any state.
-- Parameters: ?1 id.
-- Columns out: false; id; how many jobs it waits for, 100,000 at most; the columns of the view, in its order.
-- Concurrency: one snapshot over both tables, so a job that is just finishing is
--   found in one of them; locks nothing.
select
  0,
  v.id,
  (select count(*) from (select 1 from dibs_edge e where e.child = ?1 and e.stage = 1 limit 100000) w),
  v.*
from dibs_live_job v
where v.id = ?1
union all
select 0, v.id, 0, v.*
from dibs_ended_job v
where v.id = ?1
