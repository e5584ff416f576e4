-- Purpose: delete the edges of jobs that have ended and are not kept.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that has looked at the edges.
delete from dibs_edge
where child in (select value from json_each(?1))
  and not exists (select 1 from dibs_job j where j.id = dibs_edge.child)
  and not exists (select 1 from dibs_finished f where f.id = dibs_edge.child)
