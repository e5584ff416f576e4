-- Purpose: list how the dead jobs of some queues have ended. Lists are JSON arrays.
-- Parameters: ?1 names of queues; ?2 how many of each; ?3, ?4 only those that died before this time, or at it if
--   their ids are smaller.
-- Columns out: id, queue, kind, when it died, attempt, the last error without its middle.
-- Concurrency: one snapshot of finished rows for each queue; locks nothing. It reads the index of each queue from the
--   newest on, as far as the limit, and no other rows. The rows come in no order.
begin not atomic
  declare queue_name varbinary(255);
  declare ids longtext character set utf8mb4;
  declare hits longtext character set utf8mb4 default '';
  declare ended tinyint default 0;
  declare each_queue cursor for
    select q.name
    from json_table(?1, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) q;
  declare continue handler for not found set ended = 1;
  open each_queue;
  fetch each_queue into queue_name;
  while not ended do
    select concat(',', group_concat(x.id)) into ids
    from (
      select d.id
      from dibs_finished d force index (by_time)
      where d.queue = queue_name and d.state = 'dead' and d.finished_at <= ?3 and (d.finished_at < ?3 or d.id < ?4)
      order by d.finished_at desc, d.id desc
      limit ?2
    ) x;
    set hits = concat(hits, coalesce(ids, ''));
    fetch each_queue into queue_name;
  end while;
  close each_queue;
  select
    x.id,
    x.queue,
    x.kind,
    x.finished_at,
    x.attempt,
    case when char_length(x.error) > 1000 then concat(left(x.error, 600), '…', right(x.error, 400)) else coalesce(x.error, '') end
  from (
    select
      f.id,
      f.queue,
      f.kind,
      f.finished_at,
      f.attempt,
      if(json_valid(convert(f.errors using utf8mb4)), json_unquote(json_extract(convert(f.errors using utf8mb4), concat('$[', greatest(json_length(convert(f.errors using utf8mb4)), 1) - 1, '].error'))), '') as error
    from json_table(concat('[', substr(hits, 2), ']'), '$[*]' columns (id bigint path '$')) i
    straight_join dibs_finished f force index (primary) on f.id = i.id
  ) x;
end
