-- Purpose: read all schedules, or some.
-- Parameters: ?1 a JSON list of names, or null for all; ?2 a JSON list of the names whose
--   payloads and metadata are read, too.
-- Columns out: the columns of dibs_schedule, ordered by name, with nulls for payloads and
--   metadata that are not read; then 0.
-- Concurrency: a plain read of the transaction's snapshot.
select
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
from dibs_schedule s
where ?1 is null or s.name in (select value from json_each(?1))
order by s.name
