-- Purpose: read the schedules whose ticks have come.
-- Parameters: ?1 now, ?2 how many at most.
-- Columns out: as schedules.sql; but the last is whether the schedule's last job has not
--   ended yet.
-- Concurrency: in the turn to take ticks, so nobody else takes these.
select
  ?1,
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
  exists (
    select 1
    from dibs_job j
    where j.id = s.last_job
  )
from dibs_schedule s
where s.next_at <= ?1
order by s.next_at
limit ?2
