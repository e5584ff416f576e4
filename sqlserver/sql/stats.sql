-- Purpose: count every queue.
-- Parameters: ?1 where to stop counting scheduled jobs of a queue, plus one;
--   ?2 length of the window in minutes.
-- Columns out: queue, paused, waiting, scheduled, blocked, running, completed, dead,
--   cancelled, oldest age in microseconds, window in microseconds, enqueued, claimed,
--   succeeded, failed, wait and run times in microseconds, summed over the window.
-- Concurrency: plain reads; locks nothing. Counts come from one snapshot of the tally; of
--   the index lane only each priority's first entry and at most ?1 future ones are read.
declare
  @most int = ?1,
  @minutes bigint = ?2;
declare @now bigint = datediff_big(microsecond, '19700101', sysutcdatetime());
declare @since bigint = @now / 60000000 - @minutes + 1;
declare @ready table (name varbinary(255) primary key, lane smallint null, scheduled int not null, oldest bigint null);
insert into @ready (name, lane, scheduled, oldest)
select
  q.name,
  (
    select top (1) j.priority
    from dibs_job j with (index (lane), forceseek)
    where j.queue = q.name and j.gate = 0
    order by j.priority
  ),
  (
    select count(*)
    from (
      select top (@most) 1 as one
      from dibs_job j with (index (later), forceseek)
      where j.place = 2 and j.queue = q.name and j.run_at > @now
    ) x
  ),
  null
from dibs_queue q;
while exists (select 1 from @ready where lane is not null)
  update r
  set
    oldest = case when r.oldest < x.run_at then r.oldest else x.run_at end,
    scheduled = r.scheduled + (
      select count(*)
      from (
        select top (@most - r.scheduled) 1 as one
        from dibs_job j with (index (lane), forceseek)
        where j.queue = r.name and j.gate = 0 and j.priority = r.lane and j.run_at > @now
      ) y
    ),
    lane = (
      select top (1) j.priority
      from dibs_job j with (index (lane), forceseek)
      where j.queue = r.name and j.gate = 0 and j.priority > r.lane
      order by j.priority
    )
  from @ready r
  outer apply (
    select top (1) j.run_at
    from dibs_job j with (index (lane), forceseek)
    where j.queue = r.name and j.gate = 0 and j.priority = r.lane
    order by j.run_at
  ) x
  where r.lane is not null;
select
  q.name,
  q.paused,
  coalesce(c.waiting, 0),
  coalesce(r.scheduled, 0),
  coalesce(c.blocked, 0),
  coalesce(c.running, 0),
  coalesce(c.completed, 0),
  coalesce(c.dead, 0),
  coalesce(c.cancelled, 0),
  case when r.oldest < @now then @now - r.oldest else 0 end,
  case
    when @now - 1000000 < case when @since * 60000000 > q.created_at then @since * 60000000 else q.created_at end then 1000000
    else @now - case when @since * 60000000 > q.created_at then @since * 60000000 else q.created_at end
  end,
  coalesce(c.enqueued, 0),
  coalesce(c.claimed, 0),
  coalesce(c.succeeded, 0),
  coalesce(c.failed, 0),
  convert(bigint, case when c.wait_us > 900000000000000000 then 900000000000000000 else coalesce(c.wait_us, 0) end),
  convert(bigint, case when c.run_us > 900000000000000000 then 900000000000000000 else coalesce(c.run_us, 0) end)
from dibs_queue q
left join @ready r on r.name = q.name
left join (
  select
    t.queue,
    sum(t.waiting) as waiting,
    sum(t.blocked) as blocked,
    sum(t.running) as running,
    sum(t.completed) as completed,
    sum(t.dead) as dead,
    sum(t.cancelled) as cancelled,
    sum(case when t.minute >= @since then t.enqueued else 0 end) as enqueued,
    sum(case when t.minute >= @since then t.claimed else 0 end) as claimed,
    sum(case when t.minute >= @since then t.succeeded else 0 end) as succeeded,
    sum(case when t.minute >= @since then t.failed else 0 end) as failed,
    sum(convert(decimal(38, 0), case when t.minute >= @since then t.wait_us else 0 end)) as wait_us,
    sum(convert(decimal(38, 0), case when t.minute >= @since then t.run_us else 0 end)) as run_us
  from dibs_tally t
  group by t.queue
) c on c.queue = q.name
order by q.name;
