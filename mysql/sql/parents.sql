-- Purpose: find those of some jobs that exist, before others are noted to come after them.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: a plain read. settle looks at the jobs again once the edges are there.
select i.id
from json_table(?1, '$[*]' columns (id bigint path '$')) i
where exists (select 1 from dibs_job j where j.id = i.id)
  or exists (select 1 from dibs_finished f where f.id = i.id)
