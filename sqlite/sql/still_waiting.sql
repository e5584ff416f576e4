-- Purpose: find those of some jobs that wait for others.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: in the transaction that releases the rest.
-- One lookup for each job, however many it comes after.
select i.value
from json_each(?1) i
where exists (
    select 1
    from dibs_edge e indexed by dibs_edge_open
    where e.child = i.value and e.stage = 1
  )
