-- Purpose: find the jobs, among those that somebody waits for, that have ended.
-- Parameters: ?1 a JSON array of ids; ?2 how many to find.
-- Columns out: those of ended_job; for a job that there is not, only the id, and an empty state.
-- Concurrency: one snapshot over both tables, so a job that is just finishing or being put
--   back is in one of them; locks nothing.
select v.*
from json_each(?1) i
cross join dibs_ended_job v on v.id = i.value
union all
select i.value, '', '', '', null, null, 0, null, 0, 0, 0, null, 0, null, null, null, null, null, 0, null, null, null, null, null, null, null, null
from json_each(?1) i
where not exists (select 1 from dibs_finished f where f.id = i.value)
  and not exists (select 1 from dibs_job j where j.id = i.value)
limit ?2
