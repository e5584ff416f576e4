-- Purpose: read all schedules, or some, and the time. Lists are JSON arrays.
-- Parameters: ?1 names, or null for all; ?2 the names of those whose payloads and metadata are
--   read, too.
-- Columns out: the time; name, owner, settings, payload, metadata, paused, since, next tick, last tick, last job, ordered
--   by name, with nulls for payloads and metadata that are not read; version or 0. One row without a name if there is none.
-- Concurrency: a plain read of the transaction's snapshot.
select
  (
    select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
    from dibs_clock
  ),
  s.name,
  s.owner,
  s.settings,
  case when s.name in (select value from json_each(?2)) then s.payload end,
  case when s.name in (select value from json_each(?2)) then s.metadata end,
  s.paused,
  s.since,
  s.next_at,
  s.last_tick,
  s.last_job,
  0
from (select 1)
left join dibs_schedule s on ?1 is null or s.name in (select value from json_each(?1))
order by s.name
