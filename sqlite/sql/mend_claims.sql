-- Purpose: log the claims that are missing of some running jobs, so that their leases end as
--   all others do.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many, ?3 now.
-- Columns out: token of each job that had no claim.
-- Concurrency: in the transaction of the sweep. A claim writes jobs and its row in one
--   transaction, so a running job without one was damaged by hand.
insert into dibs_claim (token, queue, worker, check_at, ids)
select
  token,
  queue,
  coalesce(worker, ''),
  lease_until,
  json_array(id)
from (
  select id, token, queue, worker, lease_until
  from dibs_job
  where id > ?1
  order by id
  limit ?2
) looked
where token is not null and not exists (
    select 1
    from dibs_claim c, json_each(c.ids) i
    where c.token = looked.token and i.value = looked.id and c.check_at <= ?3 + 90000000000
  )
on conflict (token) do update
set
  check_at = min(check_at, excluded.check_at),
  ids = json_insert(ids, '$[#]', json_extract(excluded.ids, '$[0]'))
returning token
