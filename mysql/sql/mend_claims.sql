-- Purpose: log the claims that are missing of some running jobs, so that their leases end as
--   all others do.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many, ?3 now.
-- Columns out: token of each job that had no claim.
-- Concurrency: in the transaction of the sweep. A claim writes jobs and its row in one
--   transaction, so a running job without one was damaged by hand.
select json_arrayagg(json_object(
  'token', hex(x.token), 'queue', convert(x.queue using utf8mb4), 'worker', convert(coalesce(x.worker, '') using utf8mb4), 'at', x.lease_until, 'id', x.id
)) into @dibs_claims
from (
  select l.id, l.token, l.queue, l.worker, l.lease_until
  from (
    select id, token, queue, worker, lease_until
    from dibs_job
    where id > ?1
    order by id
    limit ?2
  ) l
  where l.token is not null and not exists (
      select 1
      from dibs_claim c
      where c.token = l.token and json_contains(convert(c.ids using utf8mb4), cast(l.id as char)) and c.check_at <= ?3 + 90000000000
    )
) x
-- then
insert into dibs_claim (token, queue, worker, check_at, ids)
select
  unhex(i.token),
  i.queue,
  i.worker,
  i.at,
  json_array(i.id)
from json_table(@dibs_claims, '$[*]' columns (token varchar(32) character set utf8mb4 path '$.token', queue varchar(255) character set utf8mb4 path '$.queue', worker varchar(255) character set utf8mb4 path '$.worker', at bigint path '$.at', id bigint path '$.id')) i
on duplicate key update
  check_at = least(check_at, values(check_at)),
  ids = json_array_append(convert(ids using utf8mb4), '$', json_extract(convert(values(ids) using utf8mb4), '$[0]'))
-- then
select unhex(i.token)
from json_table(@dibs_claims, '$[*]' columns (token varchar(32) character set utf8mb4 path '$.token')) i
