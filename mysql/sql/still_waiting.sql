-- Purpose: find those of some jobs that wait for others.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: in the transaction that releases the rest.
-- One lookup for each job, however many it comes after.
select i.id
from json_table(?1, '$[*]' columns (id bigint path '$')) i
where exists (
    select 1
    from dibs_edge e force index (open_edge)
    where e.child = i.id and e.stage = 1
  )
order by i.id
