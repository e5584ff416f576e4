-- Purpose: count the places that the jobs of groups hold.
-- Parameters: ?1 queue, ?2 a JSON array of groups, ?3 now, ?4 whether the queue is strict.
-- Columns out: place of the group in the list; places held by running jobs; started: held by jobs of a strict queue that
--   wait for their retry; loose: held by other waiting jobs; whether a blocked job comes
--   before a loose one; how many loose ones have no turn; the last turn of waiting jobs with a place, or 0; whether jobs are blocked.
-- Concurrency: the only write transaction of the file. A place is held by a job's row,
--   so there is no counter that a crash could leave wrong.
select
  i.key,
  count(*) filter (where h.token is not null),
  count(h.id) filter (where h.token is null and (?4 and h.attempt > 0)),
  count(h.id) filter (where h.token is null and not (?4 and h.attempt > 0)),
  coalesce((
    select b.priority, b.run_at, b.id
    from dibs_job b
    where b.queue = ?1 and b.group_key = i.value and b.gate = 1
    order by b.priority, b.run_at, b.id
    limit 1
  ) < (
    select l.priority, l.run_at, l.id
    from dibs_job l
    where l.queue = ?1 and l.group_key = i.value and l.group_key is not null and l.gate in (0, 3)
      and l.token is null and l.run_at <= ?3 and not (?4 and l.attempt > 0)
    order by l.priority desc, l.run_at desc, l.id desc
    limit 1
  ), 0),
  count(h.id) filter (where h.token is null and h.turn is null and not (?4 and h.attempt > 0)),
  coalesce(max(h.turn) filter (where h.gate = 0 and h.token is null), 0),
  exists (
    select 1
    from dibs_job b
    where b.queue = ?1 and b.group_key = i.value and b.gate = 1
  )
from json_each(?2) i
left join dibs_job h on h.queue = ?1 and h.group_key = i.value and h.group_key is not null and h.gate in (0, 3)
group by i.key
