-- Purpose: find those of some jobs that exist, before others are noted to come after them.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: a plain read. settle looks at the jobs again once the edges are there.
declare
  @ids nvarchar(max) = ?1;
select i.id
from openjson(@ids) with (id bigint '$') i
where exists (select 1 from dibs_job j where j.id = i.id)
  or exists (select 1 from dibs_finished f where f.id = i.id);
