-- Purpose: read all schedules, or some, and the time. Lists are JSON arrays.
-- Parameters: ?1 names, or null for all; ?2 the names of those whose payloads and metadata are
--   read, too.
-- Columns out: the time; name, owner, settings, payload, metadata, paused, since, next tick, last tick, last job, ordered
--   by name, with nulls for payloads and metadata that are not read; version or 0. One row without a name if there is none.
-- Concurrency: a plain read of one snapshot.
select
  timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)),
  s.name,
  s.owner,
  s.settings,
  case when s.name in (select i.name from json_table(?2, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) i) then s.payload end,
  case when s.name in (select i.name from json_table(?2, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) i) then s.metadata end,
  s.paused,
  s.since,
  s.next_at,
  s.last_tick,
  s.last_job,
  0
from (select 1 as one) o
left join dibs_schedule s on ?1 is null or s.name in (select i.name from json_table(?1, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) i)
order by s.name
