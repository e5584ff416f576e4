-- Purpose: give the jobs that a worker of this name holds in a queue to the same worker under a new token.
-- Parameters: ?1 queue, ?2 worker, ?3 now, ?4 new token, ?5 end of the new leases.
-- Columns out: as claim.sql; no row for a job whose lease has ended, that has no attempts left or is to be cancelled.
-- Concurrency: fenced by the tokens of the worker's claims, which are lost from here on. It locks the jobs, and passes over those
--   that others have locked.
select json_arrayagg(x.id) into @dibs_ids
from (
  select
    i.id,
    (
      select l.id
      from dibs_job l force index (primary)
      where l.id = i.id and l.token = c.token
        and l.lease_until > ?3
        and l.attempt - l.excused < l.max_attempts
        and l.cancel_requested = 0
      for update skip locked
    ) as locked
  from dibs_claim c force index (by_queue)
  straight_join json_table(convert(c.ids using utf8mb4), '$[*]' columns (id bigint path '$')) i
  where c.queue = ?1 and c.worker = ?2
  having locked is not null
  limit 1000000
) x
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set
  j.token = ?4,
  j.lease_until = ?5,
  j.claimed_at = ?3,
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
