-- Purpose: note of finished jobs whether they are kept because jobs that come after them have not ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that has changed their edges.
update dibs_finished
set followed = 1 - followed
where id in (select value from json_each(?1)) and followed <> exists (
    select 1
    from dibs_edge e
    where e.parent = dibs_finished.id and e.stage < 2
  )
