-- Purpose: find the jobs, among those that somebody waits for, that have ended. Lists are JSON arrays.
-- Parameters: ?1 ids; ?2 how many to find.
-- Columns out: whether there is no such job; id; 0; the columns of ended_job.
-- Concurrency: one snapshot over both tables, so a job that is just finishing or being put
--   back is in one of them; locks nothing.
declare
  @ids nvarchar(max) = ?1,
  @n int = ?2;
select top (@n) x.*
from (
  select 0 as gone, v.id as at, 0 as waits_for, v.*
  from openjson(@ids) with (id bigint '$') i
  join dibs_ended_job v on v.id = i.id
  union all
  select 1, i.id, 0, v.*
  from openjson(@ids) with (id bigint '$') i
  left join dibs_ended_job v on v.id = i.id
  where not exists (select 1 from dibs_finished f where f.id = i.id)
    and not exists (select 1 from dibs_job j where j.id = i.id)
) x;
