-- Purpose: count the places that the jobs of groups hold.
-- Parameters: ?1 queue, ?2 a JSON array of groups, ?3 now, ?4 whether the queue is strict.
-- Columns out: place of the group in the list; places held by running jobs; started: held by jobs of a strict queue that
--   wait for their retry; loose: held by other waiting jobs; whether a blocked job comes
--   before a loose one; how many loose ones have no turn; the last turn of waiting jobs with a place, or 0; whether jobs are blocked.
-- Concurrency: in the turn to admit; a plain read, also of what others have locked. A place is held by a job's row,
--   so there is no counter that a crash could leave wrong.
declare
  @queue varbinary(255) = ?1,
  @groups nvarchar(max) = ?2,
  @now bigint = ?3,
  @strict tinyint = ?4;
select
  n.nth,
  coalesce(h.running, 0),
  coalesce(h.started, 0),
  coalesce(h.loose, 0),
  case
    when @strict = 0 and h.early = 1 then 1
    when b.priority < l.priority then 1
    when b.priority = l.priority and b.run_at < l.run_at then 1
    when b.priority = l.priority and b.run_at = l.run_at and b.id < l.id then 1
    else 0
  end,
  coalesce(h.turnless, 0),
  coalesce(h.last_turn, 0),
  case when b.id is not null then 1 else 0 end
from openjson(@groups) v
cross apply (select convert(int, v.[key]) as nth, convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) as name) n
outer apply (
  select
    sum(case when p.place = 3 then 1 else 0 end) as running,
    sum(case when p.place = 0 and @strict = 1 and p.attempt > 0 then 1 else 0 end) as started,
    sum(case when p.place = 0 and not (@strict = 1 and p.attempt > 0) then 1 else 0 end) as loose,
    max(case when p.place = 0 and p.run_at > @now then 1 else 0 end) as early,
    sum(case when p.place = 0 and p.turn is null and not (@strict = 1 and p.attempt > 0) then 1 else 0 end) as turnless,
    max(case when p.place = 0 then p.turn end) as last_turn
  from dibs_job p with (index (place), forceseek)
  where p.queue = @queue and p.place in (0, 3) and p.group_key = n.name
) h
outer apply (
  select top (1) f.id, f.priority, f.run_at
  from dibs_job f with (index (place), forceseek)
  where f.queue = @queue and f.place = 1 and f.group_key = n.name
  order by f.priority, f.run_at, f.id
) b
outer apply (
  select top (1) f.id, f.priority, f.run_at
  from dibs_job f with (index (place), forceseek)
  where f.queue = @queue and f.place = 0 and f.group_key = n.name
    and f.run_at <= @now and not (@strict = 1 and f.attempt > 0)
  order by f.priority desc, f.run_at desc, f.id desc
) l;
