-- Purpose: read what jobs leave to those that their ends add.
-- Parameters: ?1 a JSON array of ids; ?2 how many followers are counted.
-- Columns out: id; flow, or the job's own id if it has none; how many jobs come after it, and not after its failure.
-- Concurrency: in the transaction that writes the ends, before it closes edges (close_edges.sql).
select
  i.id,
  coalesce(j.flow, i.id),
  least((
    select count(*)
    from dibs_edge e force index (by_parent)
    where e.parent = i.id and e.need <> 'failed'
  ), ?2)
from json_table(?1, '$[*]' columns (id bigint path '$')) i
left join dibs_job j on j.id = i.id
