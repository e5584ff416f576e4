-- Purpose: read all schedules, or one.
-- Parameters: ?1 name, or null for all.
-- Columns out: the columns of dibs_schedule, ordered by name; then 0.
-- Concurrency: a plain read of the transaction's snapshot.
select
  s.name,
  s.owner,
  s.settings,
  s.payload,
  s.metadata,
  s.paused,
  s.since,
  s.next_at,
  s.last_tick,
  s.last_job,
  0
from dibs_schedule s
where ?1 is null or s.name = ?1
order by s.name
