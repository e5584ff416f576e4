-- Purpose: count the places that the jobs of groups hold.
-- Parameters: ?1 queue, ?2 a JSON array of groups, ?3 now, ?4 whether the queue is strict.
-- Columns out: place of the group in the list; places held by running jobs; started: held by jobs of a strict queue that
--   wait for their retry; loose: held by other waiting jobs; whether a blocked job comes
--   before a loose one; how many loose ones have no turn; the last turn of waiting jobs with a place, or 0; whether jobs are blocked.
-- Concurrency: in the turn to admit; a plain read, also of what others have locked. A place is held by a job's row,
--   so there is no counter that a crash could leave wrong.
select
  g.nth - 1,
  g.running,
  g.started,
  g.loose,
  not ?4 and g.early or coalesce((b.priority, b.run_at, b.id) < (l.priority, l.run_at, l.id), 0),
  g.turnless,
  g.last_turn,
  g.first_blocked is not null
from (
  select
    i.nth,
    coalesce(sum(h.place = 3), 0) as running,
    coalesce(sum(h.place = 0 and (?4 and h.attempt > 0)), 0) as started,
    coalesce(sum(h.place = 0 and not (?4 and h.attempt > 0)), 0) as loose,
    coalesce(max(h.place = 0 and h.run_at > ?3), 0) as early,
    coalesce(sum(h.place = 0 and h.turn is null and not (?4 and h.attempt > 0)), 0) as turnless,
    coalesce(max(case when h.place = 0 then h.turn end), 0) as last_turn,
    (
      select f.id
      from dibs_job f force index (place)
      where f.queue = ?1 and f.group_key = i.name and f.place = 1
      order by f.priority, f.run_at, f.id
      limit 1
    ) as first_blocked,
    (
      select f.id
      from dibs_job f force index (place)
      where f.queue = ?1 and f.group_key = i.name and f.place = 0
        and f.run_at <= ?3 and not (?4 and f.attempt > 0)
      order by f.priority desc, f.run_at desc, f.id desc
      limit 1
    ) as last_loose
  from json_table(?2, '$[*]' columns (nth for ordinality, name varchar(255) character set utf8mb4 path '$')) i
  straight_join (
    select 0 as place
    union all
    select 3
  ) p
  left join dibs_job h force index (place) on h.queue = ?1 and h.place = p.place and h.group_key = i.name
  group by i.nth
) g
left join dibs_job b force index (primary) on b.id = g.first_blocked
left join dibs_job l force index (primary) on l.id = g.last_loose
