-- Purpose: count every queue.
-- Parameters: ?1 where to stop counting scheduled jobs of a queue, plus one;
--   ?2 length of the window in minutes.
-- Columns out: queue, paused, waiting, scheduled, blocked, running, completed, dead,
--   cancelled, oldest age in microseconds, window in microseconds, enqueued, claimed,
--   succeeded, failed, wait and run times in microseconds, summed over the window.
-- Concurrency: plain reads; locks nothing. Counts come from one snapshot of the tally; of
--   the index lane only each priority's first entry and at most ?1 future ones are read.
begin not atomic
  declare clock bigint default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)));
  declare since bigint default (clock div 60000000 - ?2 + 1);
  declare queue_name varbinary(255);
  declare lane, has_later, scheduled, enough int;
  declare oldest bigint;
  declare hits longtext character set utf8mb4 default '';
  declare ended tinyint default 0;
  declare each_queue cursor for
    select
      q.name,
      (
        select j.priority
        from dibs_job j force index (lane)
        where j.queue = q.name and j.gate = 0
        order by j.priority
        limit 1
      ) as first_lane,
      coalesce((
        select j.run_at
        from dibs_job j force index (later)
        where j.place = 2 and j.queue = q.name
        order by j.run_at desc
        limit 1
      ) > clock, 0) as later
    from dibs_queue q
    having first_lane is not null or later;
  declare continue handler for not found set ended = 1;
  open each_queue;
  fetch each_queue into queue_name, lane, has_later;
  while not ended do
    set oldest = null, scheduled = 0;
    if has_later then
      select count(*) into scheduled
      from (
        select 1
        from dibs_job j force index (later)
        where j.place = 2 and j.queue = queue_name and j.run_at > clock
        limit ?1
      ) x;
    end if;
    while lane is not null do
      set enough = ?1 - scheduled;
      select
        least(coalesce(oldest, 9000000000000000000), (
          select j.run_at
          from dibs_job j force index (lane)
          where j.queue = queue_name and j.gate = 0 and j.priority = lane
          order by j.run_at
          limit 1
        )),
        scheduled + (
          select count(*)
          from (
            select 1
            from dibs_job j force index (lane)
            where j.queue = queue_name and j.gate = 0 and j.priority = lane and j.run_at > clock
            limit enough
          ) x
        ),
        (
          select j.priority
          from dibs_job j force index (lane)
          where j.queue = queue_name and j.gate = 0 and j.priority > lane
          order by j.priority
          limit 1
        )
      into oldest, scheduled, lane;
    end while;
    set hits = concat(hits, ',', json_array(convert(queue_name using utf8mb4), scheduled, oldest));
    fetch each_queue into queue_name, lane, has_later;
  end while;
  close each_queue;
  select
    q.name,
    q.paused,
    coalesce(c.waiting, 0),
    coalesce(f.scheduled, 0),
    coalesce(c.blocked, 0),
    coalesce(c.running, 0),
    coalesce(c.completed, 0),
    coalesce(c.dead, 0),
    coalesce(c.cancelled, 0),
    greatest(0, coalesce(clock - f.oldest, 0)),
    greatest(1000000, clock - greatest(since * 60000000, q.created_at)),
    coalesce(c.enqueued, 0),
    coalesce(c.claimed, 0),
    coalesce(c.succeeded, 0),
    coalesce(c.failed, 0),
    least(coalesce(c.wait_us, 0), 900000000000000000),
    least(coalesce(c.run_us, 0), 900000000000000000)
  from dibs_queue q
  left join (
    select
      t.queue,
      sum(t.waiting) as waiting,
      sum(t.blocked) as blocked,
      sum(t.running) as running,
      sum(t.completed) as completed,
      sum(t.dead) as dead,
      sum(t.cancelled) as cancelled,
      sum(case when t.minute >= since then t.enqueued end) as enqueued,
      sum(case when t.minute >= since then t.claimed end) as claimed,
      sum(case when t.minute >= since then t.succeeded end) as succeeded,
      sum(case when t.minute >= since then t.failed end) as failed,
      sum(case when t.minute >= since then t.wait_us end) as wait_us,
      sum(case when t.minute >= since then t.run_us end) as run_us
    from dibs_tally t
    group by t.queue
  ) c on c.queue = q.name
  left join json_table(concat('[', substr(hits, 2), ']'), '$[*]' columns (
    name varchar(255) character set utf8mb4 path '$[0]', scheduled int path '$[1]', oldest bigint path '$[2]'
  )) f on f.name = q.name
  order by q.name;
end
