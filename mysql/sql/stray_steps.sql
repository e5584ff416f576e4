-- Purpose: delete the steps of jobs that are gone, which SQL by hand has left.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: in the turn to sweep.
select json_arrayagg(s.id) into @dibs_ids
from dibs_step s
where not exists (select 1 from dibs_job j where j.id = s.job)
  and not exists (select 1 from dibs_finished f where f.id = s.job)
-- then
delete s
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_step s force index (primary) on s.id = i.id
