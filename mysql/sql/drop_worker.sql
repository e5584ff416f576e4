-- Purpose: remove the entries of workers that have stopped, and those of workers that were lost
--   long ago.
-- Parameters: ?1 JSON array of ids in hexadecimal or null, ?2 remove all that were last seen before.
-- Columns out: none.
-- Concurrency: each worker writes its own row; it passes over those of lost ones that others have locked.
delete w
from json_table(?1, '$[*]' columns (id varchar(32) character set utf8mb4 path '$')) i
straight_join dibs_worker w force index (primary) on w.id = unhex(i.id)
-- then
select json_arrayagg(hex(x.id)) into @dibs_workers
from (
  select
    w.id,
    (
      select l.id
      from dibs_worker l force index (primary)
      where l.id = w.id and l.seen_at < ?2
      for update skip locked
    ) as locked
  from dibs_worker w force index (seen)
  where w.seen_at < ?2
  having locked is not null
  limit 1000
) x
-- then
delete w
from json_table(@dibs_workers, '$[*]' columns (id varchar(32) character set utf8mb4 path '$')) i
straight_join dibs_worker w force index (primary) on w.id = unhex(i.id)
