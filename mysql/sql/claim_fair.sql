-- Purpose: claim jobs that fair.sql has found.
-- Parameters: ?1 a JSON array of their ids, ?2 now, ?3 token, ?4 end of the lease, ?5 worker.
-- Columns out: as claim.sql.
-- Concurrency: as claim.sql.
select json_arrayagg(x.id) into @dibs_ids
from (
  select j.id
  from json_table(?1, '$[*]' columns (id bigint path '$')) i
  straight_join dibs_job j force index (primary) on j.id = i.id
  where j.gate = 0 and j.turn is not null
  limit 100000
  for update skip locked
) x
-- then
select json_arrayagg(j.id) into @dibs_ids
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
where j.group_key is null or not exists (
    select 1
    from dibs_wake w
    where w.queue = j.queue and w.group_key = j.group_key and w.not_before <= ?2
  )
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set
  j.gate = 3,
  j.token = ?3,
  j.lease_until = ?4,
  j.worker = ?5,
  j.claimed_at = ?2,
  j.attempt = j.attempt + 1
-- then
select
  j.id,
  j.kind,
  j.payload,
  j.metadata,
  j.priority,
  j.run_at,
  j.attempt,
  j.excused,
  j.max_attempts,
  j.group_key,
  j.unique_key,
  j.unique_until,
  j.cancel_requested,
  j.created_at,
  j.errors,
  coalesce(j.flow, 0)
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
