-- Purpose: note that others come after live jobs.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that then looks whether some of them have ended.
update dibs_job
set followed = 1
where id in (select value from json_each(?1)) and followed = 0 and exists (
    select 1
    from dibs_edge e
    where e.parent = dibs_job.id and e.stage = 1
  )
