-- Purpose: read one job in any state.
-- Parameters: ?1 id.
-- Columns out: false; id; the columns of the view, in its order.
-- Concurrency: one snapshot over both tables, so a job that is just finishing is
--   found in one of them; locks nothing.
select 0, v.id, v.*
from dibs_live_job v
where v.id = ?1
union all
select 0, v.id, v.*
from dibs_ended_job v
where v.id = ?1
