-- Purpose: read what jobs leave to those that their ends add.
-- Parameters: ?1 a JSON array of ids; ?2 how many followers are counted.
-- Columns out: id; flow, or the job's own id if it has none; how many jobs come after it, and not after its failure.
-- Concurrency: in the transaction that writes the ends, before it closes edges (close_edges.sql).
select
  i.value,
  coalesce(j.flow, i.value),
  (select count(*) from (
    select 1
    from dibs_edge e
    where e.parent = i.value and e.need <> 'failed'
    limit ?2
  ))
from json_each(?1) i
left join dibs_job j on j.id = i.value
