-- Purpose: take the next rows of the inbox.
-- Parameters: ?1 a JSON array of ids of rows to leave out, ?2 how many rows at most, ?3 how many bytes of payloads at most,
--   unless the first row alone has more.
-- Columns out: id; the columns of a new job: times and durations in microseconds, texts empty and numbers 0 if not given,
--   priority null.
-- Concurrency: in the turn to take rows, in the order of their ids. The ids are read in one snapshot, so a transaction that
--   commits meanwhile is seen with all its rows or with none. It passes over rows that others have locked.
select json_arrayagg(x.id) into @dibs_ids
from (
  select id, row_number() over (order by id) as nth, sum(size) over (order by id) as bytes
  from (
    select id, size
    from dibs_inbox force index (primary)
    where not json_contains(?1, cast(id as char))
    order by id
    limit ?2
  ) n
) x
where x.nth = 1 or x.bytes <= ?3
-- then
select
  i.id,
  coalesce(i.queue, ''),
  coalesce(i.kind, ''),
  coalesce(i.payload, ''),
  coalesce(i.metadata, ''),
  i.priority,
  case
    when i.delay > 0 then cast((unix_timestamp(i.inserted_at) + i.delay) * 1000000 as signed)
    when i.run_at is not null then cast(unix_timestamp(i.run_at) * 1000000 as signed)
  end,
  coalesce(i.max_attempts, 0),
  coalesce(i.group_key, ''),
  coalesce(i.unique_key, ''),
  coalesce(i.unique_until, ''),
  cast(coalesce(i.unique_for, 0) * 1000000 as signed),
  coalesce(i.unique_window, ''),
  coalesce(i.if_held, ''),
  cast(coalesce(i.delay_limit, 0) * 1000000 as signed)
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) n
straight_join dibs_inbox i force index (primary) on i.id = n.id
order by i.id
for update skip locked
