-- Purpose: have jobs that still wait for others wait again for some that are put back.
-- Parameters: ?1 a JSON array of ids of those that are put back.
-- Columns out: none.
-- Concurrency: in the transaction that puts them back.
update dibs_edge
set stage = 1
where parent in (select value from json_each(?1)) and stage = 0 and exists (
    select 1
    from dibs_job j
    where j.id = dibs_edge.child and j.gate = 5
  )
