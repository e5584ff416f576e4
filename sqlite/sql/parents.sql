-- Purpose: find those of some jobs that exist, before others are noted to come after them.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: a plain read of the transaction's snapshot. settle looks at the jobs again once the edges are there.
select i.value
from json_each(?1) i
where exists (select 1 from dibs_job j where j.id = i.value)
  or exists (select 1 from dibs_finished f where f.id = i.value)
