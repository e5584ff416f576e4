-- Purpose: list how the dead jobs of some queues have ended. Lists are JSON arrays.
-- Parameters: ?1 names of queues; ?2 how many of each; ?3, ?4 only those that died before this time, or at it if
--   their ids are smaller.
-- Columns out: id, queue, kind, when it died, attempt, the last error without its middle.
-- Concurrency: one snapshot of finished rows for each queue; locks nothing. It reads the index of each queue from the
--   newest on, as far as the limit, and no other rows. The rows come in no order.
begin not atomic
  declare found longtext character set utf8mb4 default '';
  for asked in (
    select convert(q.name using binary) as name
    from json_table(?1, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) q
  ) do
    set found = concat(found, coalesce((
      select concat(',', group_concat(x.id))
      from (
        select d.id
        from dibs_finished d force index (by_time)
        where d.queue = asked.name and d.state = 'dead' and d.finished_at <= ?3 and (d.finished_at < ?3 or d.id < ?4)
        order by d.finished_at desc, d.id desc
        limit ?2
      ) x
    ), ''));
  end for;
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
      if(json_valid(f.errors), json_value(convert(f.errors using utf8mb4), concat('$[', json_length(f.errors) - 1, '].error')), '') as error
    from json_table(concat('[', substr(found, 2), ']'), '$[*]' columns (id bigint path '$')) i
    straight_join dibs_finished f force index (primary) on f.id = i.id
  ) x;
end
