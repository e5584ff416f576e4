-- Purpose: claim due jobs of one priority, oldest first; claim_newest is the same in the other
--   order (statements.go).
-- Parameters: ?1 queue, ?2 priority, ?3 now, ?4 a JSON array of kinds or null for
--   all, ?5 how many, ?6 token, ?7 end of the lease, ?8 worker.
-- Columns out: id, kind, payload, metadata, priority, run_at, attempt, excused,
--   max_attempts, group, unique key, unique until, cancel_requested, created_at, errors, flow or 0.
-- Concurrency: it locks the jobs that it takes, by their primary key alone, and passes over locked ones.
--   Their entries leave the front of the index lane, so that claims never read running jobs. Jobs of groups whose places are to be given anew are left out:
--   it looks again once it has locked the jobs, as the first look may be older than their places.
--   In a fair queue it leaves jobs with turns to fair.sql.
select json_arrayagg(x.id) into @dibs_ids
from (
  select
    j.id,
    (
      select l.id
      from dibs_job l force index (primary)
      where l.id = j.id and l.gate = 0 and l.priority = ?2 and l.run_at <= ?3 and l.turn <=> j.turn
        and l.kind = j.kind and l.group_key <=> j.group_key
      for update skip locked
    ) as locked
  from dibs_job j force index (lane)
  where j.queue = ?1 and j.gate = 0 and j.priority = ?2 and j.run_at <= ?3
  and (j.turn is null or (select q.claim_order from dibs_queue q where q.name = ?1) <> 'fair')
  and (?4 is null or json_contains(?4, json_quote(convert(j.kind using utf8mb4))))
  and (j.group_key is null or not exists (
    select 1
    from dibs_wake w
    where w.queue = ?1 and w.group_key = j.group_key and w.not_before <= ?3
  ))
  having locked is not null
  order by j.run_at, j.id
  limit ?5
) x
-- then
select json_arrayagg(j.id) into @dibs_ids
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
where j.group_key is null or not exists (
    select 1
    from dibs_wake w
    where w.queue = j.queue and w.group_key = j.group_key and w.not_before <= ?3
  )
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set
  j.gate = 3,
  j.token = ?6,
  j.lease_until = ?7,
  j.worker = ?8,
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
