-- Purpose: look at some live jobs, and end now the leases that are longer than any that a store
--   gives: only SQL by hand leaves such leases.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many, ?3 now.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep. It passes over jobs that others have locked.
select json_arrayagg(x.id) into @dibs_ids
from (
  select j.id
  from (
    select id
    from dibs_job
    where id > ?1
    order by id
    limit ?2
  ) l
  straight_join dibs_job j force index (primary) on j.id = l.id
  where j.lease_until > ?3 + 90000000000
  limit 1000000
  for update skip locked
) x
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set j.lease_until = ?3
