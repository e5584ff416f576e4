-- Purpose: delete periods of unique keys that have passed.
-- Parameters: ?1 now, ?2 how many at most.
-- Columns out: none.
-- Concurrency: in the turn to sweep. It passes over rows that others have locked, and over periods whose keys they have locked: an
--   enqueue that has read the clock before a period's end must find it. Keys that no job holds go too, some time after they
--   were last looked at.
select json_arrayagg(json_array(convert(x.queue using utf8mb4), convert(x.unique_key using utf8mb4))) into @dibs_keys
from (
  select
    u.queue,
    u.unique_key,
    (
      select l.until
      from dibs_unique_window l force index (primary)
      where l.queue = u.queue and l.unique_key = u.unique_key and l.until <= ?1
      for update skip locked
    ) as locked,
    (
      select k.check_at
      from dibs_key k force index (primary)
      where k.queue = u.queue and k.unique_key = u.unique_key
      for update skip locked
    ) as key_locked,
    exists (
      select 1
      from dibs_key k
      where k.queue = u.queue and k.unique_key = u.unique_key
    ) as key_known
  from dibs_unique_window u force index (by_end)
  where u.until <= ?1
  having locked is not null and (key_locked is not null or not key_known)
  limit ?2
) x
-- then
delete u
from json_table(@dibs_keys, '$[*]' columns (queue varchar(255) character set utf8mb4 path '$[0]', unique_key varchar(512) character set utf8mb4 path '$[1]')) i
straight_join dibs_unique_window u force index (primary) on u.queue = i.queue and u.unique_key = i.unique_key
-- then
select json_arrayagg(json_array(convert(x.queue using utf8mb4), convert(x.unique_key using utf8mb4))) into @dibs_keys
from (
  select
    k.queue,
    k.unique_key,
    (
      select l.check_at
      from dibs_key l force index (primary)
      where l.queue = k.queue and l.unique_key = k.unique_key and l.check_at <= ?1
      for update skip locked
    ) as locked
  from dibs_key k force index (by_check)
  where k.check_at <= ?1
  having locked is not null
  limit ?2
) x
-- then
select json_arrayagg(json_array(convert(k.queue using utf8mb4), convert(k.unique_key using utf8mb4))) into @dibs_held
from json_table(@dibs_keys, '$[*]' columns (queue varchar(255) character set utf8mb4 path '$[0]', unique_key varchar(512) character set utf8mb4 path '$[1]')) i
straight_join dibs_key k force index (primary) on k.queue = i.queue and k.unique_key = i.unique_key
straight_join dibs_job j force index (primary) on j.id = k.job and j.unique_held = 1
-- then
update json_table(@dibs_held, '$[*]' columns (queue varchar(255) character set utf8mb4 path '$[0]', unique_key varchar(512) character set utf8mb4 path '$[1]')) i
straight_join dibs_key k force index (primary) on k.queue = i.queue and k.unique_key = i.unique_key
set k.check_at = ?1 + 60000000
-- then
delete k
from json_table(@dibs_keys, '$[*]' columns (queue varchar(255) character set utf8mb4 path '$[0]', unique_key varchar(512) character set utf8mb4 path '$[1]')) i
straight_join dibs_key k force index (primary) on k.queue = i.queue and k.unique_key = i.unique_key
where k.check_at <= ?1
