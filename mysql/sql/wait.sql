-- Purpose: find the jobs, among those that somebody waits for, that have ended. Lists are JSON arrays.
-- Parameters: ?1 ids; ?2 how many to find.
-- Columns out: whether there is no such job; id; 0; the columns of ended_job.
-- Concurrency: one snapshot over both tables, so a job that is just finishing or being put
--   back is in one of them; locks nothing.
select 0, v.id as at, 0, v.*
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_ended_job v on v.id = i.id
union all
select 1, i.id, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
from json_table(?1, '$[*]' columns (id bigint path '$')) i
where not exists (select 1 from dibs_finished f where f.id = i.id)
  and not exists (select 1 from dibs_job j where j.id = i.id)
limit ?2
