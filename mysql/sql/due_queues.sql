-- Purpose: find the queues from which a claim may find jobs now.
-- Parameters: ?1 a JSON array of queues, ?2 now, ?3 a JSON array of kinds or null for all.
-- Columns out: queue. Also one whose jobs a limit, a rate or a group's places keep waiting.
-- Concurrency: plain reads; locks nothing.
-- Two index seeks for each priority in use, up to the first with a due job, and a few for each queue. A loop, as a range in
--   an index ends only at constants and variables, and not at columns of another table.
begin not atomic
  declare queue_name varbinary(255);
  declare lane, due int;
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
      (
        select j.run_at
        from dibs_job j force index (later)
        where j.place = 2 and j.queue = q.name
        order by j.run_at
        limit 1
      ) <= ?2
      or exists (
        select 1
        from dibs_wake w
        where w.queue = q.name and w.not_before <= ?2
      ) as is_due
    from json_table(?1, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) i
    straight_join dibs_queue q force index (primary) on q.name = i.name
    where not q.paused;
  declare continue handler for not found set ended = 1;
  open each_queue;
  fetch each_queue into queue_name, lane, due;
  while not ended do
    set due = coalesce(due, 0);
    while not due and lane is not null do
      select
        exists (
          select 1
          from dibs_job j force index (lane)
          where j.queue = queue_name and j.gate = 0 and j.priority = lane and j.run_at <= ?2
            and (?3 is null or json_contains(?3, json_quote(convert(j.kind using utf8mb4))))
        ),
        (
          select j.priority
          from dibs_job j force index (lane)
          where j.queue = queue_name and j.gate = 0 and j.priority > lane
          order by j.priority
          limit 1
        )
      into due, lane;
    end while;
    if due or exists (
      select 1
      from dibs_rate r force index (held)
      where r.queue = queue_name and r.held_until <= ?2
    ) then
      set hits = concat(hits, ',', json_quote(convert(queue_name using utf8mb4)));
    end if;
    fetch each_queue into queue_name, lane, due;
  end while;
  close each_queue;
  select i.name
  from json_table(concat('[', substr(hits, 2), ']'), '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) i;
end
