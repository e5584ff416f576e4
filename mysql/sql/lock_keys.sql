-- Purpose: lock unique keys until the transaction ends.
-- Parameters: ?1 a JSON array of pairs: queue, unique key.
-- Columns out: how many it has locked; how many have rows.
-- Concurrency: it locks the rows of the keys, whether or not a job holds them, and passes over those that others have locked.
select count(*) into @dibs_locked
from (
  select k.check_at
  from json_table(?1, '$[*]' columns (queue varchar(255) character set utf8mb4 path '$[0]', unique_key varchar(512) character set utf8mb4 path '$[1]')) i
  straight_join dibs_key k force index (primary) on k.queue = i.queue and k.unique_key = i.unique_key
  limit 1000000
  for update skip locked
) x
-- then
select @dibs_locked, (
  select count(*)
  from json_table(?1, '$[*]' columns (queue varchar(255) character set utf8mb4 path '$[0]', unique_key varchar(512) character set utf8mb4 path '$[1]')) i
  straight_join dibs_key k force index (primary) on k.queue = i.queue and k.unique_key = i.unique_key
)
