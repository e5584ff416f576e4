-- Purpose: find jobs that others come after and that do not know it, as another transaction has locked them.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: a plain read.
select id
from dibs_job
where id in (select value from json_each(?1)) and followed = 0 and exists (
    select 1
    from dibs_edge e
    where e.parent = dibs_job.id and e.stage = 1
  )
