-- Purpose: have jobs that are put back wait again for those that they come after, unless these are deleted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that puts the jobs back, which then looks which of the others have ended.
update dibs_edge
set stage = exists (select 1 from dibs_job j where j.id = dibs_edge.parent)
  or exists (select 1 from dibs_finished f where f.id = dibs_edge.parent)
where child in (select value from json_each(?1))
