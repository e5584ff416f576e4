-- Purpose: read all schedules, or some, and the time. Lists are JSON arrays.
-- Parameters: ?1 names, or null for all; ?2 the names of those whose payloads and metadata are
--   read, too.
-- Columns out: the time; name, owner, settings, payload, metadata, paused, since, next tick, last tick, last job, ordered
--   by name, with nulls for payloads and metadata that are not read; version or 0. One row without a name if there is none.
-- Concurrency: a plain read of one snapshot.
declare
  @names nvarchar(max) = ?1,
  @whole nvarchar(max) = ?2;
select
  datediff_big(microsecond, '19700101', sysutcdatetime()),
  s.name,
  s.owner,
  s.settings,
  case when s.name in (select convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) from openjson(@whole) v) then s.payload end,
  case when s.name in (select convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) from openjson(@whole) v) then s.metadata end,
  s.paused,
  s.since,
  s.next_at,
  s.last_tick,
  s.last_job,
  0
from (select 1 as one) o
left join dibs_schedule s on @names is null or s.name in (select convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) from openjson(@names) v)
order by s.name;
