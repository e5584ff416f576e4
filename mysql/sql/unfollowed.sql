-- Purpose: find jobs that others come after and that do not know it, as another transaction has locked them.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: a plain read.
select j.id
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
where j.followed = 0 and exists (
    select 1
    from dibs_edge e
    where e.parent = j.id and e.stage = 1
  )
