-- Purpose: read the schedules whose ticks have come.
-- Parameters: ?1 now, ?2 how many at most.
-- Columns out: as schedules.sql; but the last is whether the schedule's last job has not
--   ended yet.
-- Concurrency: in the turn to take ticks, so nobody else takes these.
declare
  @now bigint = ?1,
  @n int = ?2;
select top (@n)
  @now,
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
  case when exists (
    select 1
    from dibs_job j
    where j.id = s.last_job
  ) then 1 else 0 end
from dibs_schedule s
where s.next_at <= @now
order by s.next_at;
