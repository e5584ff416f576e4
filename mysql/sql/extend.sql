-- Purpose: lengthen leases, and write the progress of their attempts.
-- Parameters: ?1 a JSON array of objects: id, token in hexadecimal digits, and progress unless there is none to write;
--   ?2 now, ?3 the leases' new end.
-- Columns out: id, cancel_requested, whether the attempt has run longer than its queue allows, whether the sweep would
--   look at the claim too late; no row for a lease that was lost.
-- Concurrency: fenced by the token and the lease's end. It passes over jobs that others have locked. No index contains the
--   changed columns.
select json_arrayagg(json_array(x.id, x.nth, x.shorter)) into @dibs_leases
from (
  select j.id, i.nth, j.lease_until > ?3 as shorter
  from json_table(?1, '$[*]' columns (nth for ordinality, id bigint path '$.id', token varchar(32) character set utf8mb4 path '$.token')) i
  straight_join dibs_job j force index (primary) on j.id = i.id
  where j.token = unhex(i.token) and j.lease_until > ?2
  limit 1000000
  for update skip locked
) x
-- then
update json_table(@dibs_leases, '$[*]' columns (id bigint path '$[0]', nth int path '$[1]')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set
  j.lease_until = ?3,
  j.progress = coalesce(json_set(json_extract(?1, concat('$[', i.nth - 1, '].progress')), '$.attempt', j.attempt), j.progress)
-- then
select
  j.id,
  j.cancel_requested,
  coalesce(j.claimed_at < ?2 - (
    select nullif(q.job_timeout, 0)
    from dibs_queue q
    where q.name = j.queue
  ), 0),
  i.shorter or coalesce((
    select c.check_at > ?3
    from dibs_claim c
    where c.token = j.token
  ), 0)
from json_table(@dibs_leases, '$[*]' columns (id bigint path '$[0]', shorter int path '$[2]')) i
straight_join dibs_job j force index (primary) on j.id = i.id
