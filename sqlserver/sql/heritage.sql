-- Purpose: read what jobs leave to those that their ends add.
-- Parameters: ?1 a JSON array of ids; ?2 how many followers are counted.
-- Columns out: id; flow, or the job's own id if it has none; how many jobs come after it, and not after its failure.
-- Concurrency: in the transaction that writes the ends, before it closes edges (close_edges.sql).
declare
  @ids nvarchar(max) = ?1,
  @n int = ?2;
select
  i.id,
  coalesce(j.flow, i.id),
  (
    select count(*)
    from (
      select top (@n) 1 as one
      from dibs_edge e with (index (by_parent), forceseek)
      where e.parent = i.id and e.need <> 'failed'
    ) x
  )
from openjson(@ids) with (id bigint '$') i
left join dibs_job j on j.id = i.id;
