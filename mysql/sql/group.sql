-- Purpose: count the places that a group's jobs hold.
-- Parameters: ?1 queue, ?2 group, ?3 now, ?4 whether the queue is strict.
-- Columns out: places held by running jobs; started: held by jobs of a strict queue that
--   wait for their retry; loose: held by other waiting jobs; whether a blocked job comes
--   before a loose one; how many loose ones have no turn.
-- Concurrency: in the turn to admit; a plain read, also of what others have locked. A place is held by a job's row,
--   so there is no counter that a crash could leave wrong.
select
  coalesce(sum(h.place = 3), 0),
  coalesce(sum(h.place = 0 and (?4 and h.attempt > 0)), 0),
  coalesce(sum(h.place = 0 and not (?4 and h.attempt > 0)), 0),
  not ?4 and coalesce(max(h.place = 0 and h.run_at > ?3), 0)
  or exists (
    select 1
    from (
      select b.priority, b.run_at, b.id
      from dibs_job b force index (place)
      where b.queue = ?1 and b.group_key = ?2 and b.place = 1
      order by b.priority, b.run_at, b.id
      limit 1
    ) f
    join (
      select l.priority, l.run_at, l.id
      from dibs_job l force index (place)
      where l.queue = ?1 and l.group_key = ?2 and l.place = 0
        and l.run_at <= ?3 and not (?4 and l.attempt > 0)
      order by l.priority desc, l.run_at desc, l.id desc
      limit 1
    ) l on f.priority < l.priority or f.priority = l.priority and (f.run_at < l.run_at or f.run_at = l.run_at and f.id < l.id)
  ),
  coalesce(sum(h.place = 0 and h.turn is null and not (?4 and h.attempt > 0)), 0)
from dibs_job h force index (place)
where h.queue = ?1 and h.group_key = ?2 and h.place in (0, 3)
