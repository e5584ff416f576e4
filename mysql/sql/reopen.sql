-- Purpose: put finished jobs back among the live ones. All attempts are allowed again.
-- Parameters: ?1 a JSON array of objects: id, gate, holds, whether it holds its unique key, and keeps, whether it keeps its
--   run_at; ?2 run_at of the others.
-- Columns out: none.
-- Concurrency: in one transaction with the deletion of the finished rows. The keys are locked; those that jobs hold again are noted
--   with them, and their rows change in any case, so that no other node of a cluster gives them away meanwhile.
insert into dibs_job (
  id,
  queue,
  kind,
  priority,
  run_at,
  gate,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  unique_held,
  worker,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors,
  flow,
  followed
)
select
  f.id,
  f.queue,
  f.kind,
  f.priority,
  case when i.keeps then f.run_at else ?2 end,
  i.gate,
  f.attempt,
  f.attempt,
  f.max_attempts,
  f.group_key,
  f.unique_key,
  f.unique_until,
  i.holds,
  f.worker,
  f.created_at,
  f.claimed_at,
  f.metadata,
  f.payload,
  f.errors,
  f.flow,
  exists (select 1 from dibs_edge e where e.parent = f.id)
from json_table(?1, '$[*]' columns (
  id bigint path '$.id',
  gate int path '$.gate',
  holds tinyint path '$.holds',
  keeps tinyint path '$.keeps'
)) i
straight_join dibs_finished f force index (primary) on f.id = i.id
-- then
select json_arrayagg(json_array(convert(f.queue using utf8mb4), convert(f.unique_key using utf8mb4), f.id)) into @dibs_keys
from json_table(?1, '$[*]' columns (
  id bigint path '$.id',
  gate int path '$.gate',
  holds tinyint path '$.holds',
  keeps tinyint path '$.keeps'
)) i
straight_join dibs_finished f force index (primary) on f.id = i.id
where i.holds
-- then
update json_table(@dibs_keys, '$[*]' columns (
  queue varchar(255) character set utf8mb4 path '$[0]',
  unique_key varchar(512) character set utf8mb4 path '$[1]',
  id bigint path '$[2]'
)) i
straight_join dibs_key k force index (primary) on k.queue = i.queue and k.unique_key = i.unique_key
set
  k.job = i.id,
  k.check_at = k.check_at + 1
