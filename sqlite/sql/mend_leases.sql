-- Purpose: look at some live jobs, and end now the leases that are longer than any that a store
--   gives: only SQL by hand leaves such leases.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many, ?3 now.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep.
update dibs_job
set lease_until = ?3
where token is not null and lease_until > ?3 + 90000000000 and id in (
    select id
    from dibs_job
    where id > ?1
    order by id
    limit ?2
  )
