-- Purpose: find the jobs, among those that somebody waits for, that have ended. Lists are JSON arrays.
-- Parameters: ?1 ids; ?2 how many to find.
-- Columns out: whether there is no such job; id; 0; the columns of ended_job.
-- Concurrency: one snapshot over both tables, so a job that is just finishing or being put
--   back is in one of them; locks nothing.
select 0, v.id, 0, v.*
from json_each(?1) i
cross join dibs_ended_job v on v.id = i.value
union all
select 1, i.value, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
from json_each(?1) i
where not exists (select 1 from dibs_finished f where f.id = i.value)
  and not exists (select 1 from dibs_job j where j.id = i.value)
limit ?2
