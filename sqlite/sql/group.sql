-- Purpose: count the places that a group's jobs hold.
-- Parameters: ?1 queue, ?2 group, ?3 now, ?4 whether the queue is strict.
-- Columns out: places held by running jobs; started: held by jobs of a strict queue that
--   wait for their retry; loose: held by other waiting jobs; whether a blocked job comes
--   before a loose one; how many loose ones have no turn.
-- Concurrency: the only write transaction of the file. A place is held by a job's row,
--   so there is no counter that a crash could leave wrong.
select
  count(*) filter (where token is not null),
  count(*) filter (where token is null and (?4 and attempt > 0)),
  count(*) filter (where token is null and not (?4 and attempt > 0)),
  coalesce((
    select b.priority, b.run_at, b.id
    from dibs_job b
    where b.queue = ?1 and b.group_key = ?2 and b.gate = 1
    order by b.priority, b.run_at, b.id
    limit 1
  ) < (
    select l.priority, l.run_at, l.id
    from dibs_job l
    where l.queue = ?1 and l.group_key = ?2 and l.group_key is not null and l.gate in (0, 3)
      and l.token is null and l.run_at <= ?3 and not (?4 and l.attempt > 0)
    order by l.priority desc, l.run_at desc, l.id desc
    limit 1
  ), 0),
  count(*) filter (where token is null and turn is null and not (?4 and attempt > 0))
from dibs_job
where queue = ?1 and group_key = ?2 and group_key is not null and gate in (0, 3)
