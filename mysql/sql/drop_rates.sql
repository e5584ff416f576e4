-- Purpose: delete the rows of groups that follow their queue's rate and have saved up all of it: a
--   group without a row counts as one of these.
-- Parameters: ?1 now, ?2 how many.
-- Columns out: none.
-- Concurrency: in the turn to sweep. It passes over rows that others have locked, and keeps those of queues with starts that are
--   not counted yet.
select json_arrayagg(json_array(convert(x.queue using utf8mb4), convert(x.group_key using utf8mb4))) into @dibs_keys
from (
  select
    r.queue,
    r.group_key,
    (
      select l.n
      from dibs_rate l force index (primary)
      where l.queue = r.queue and l.group_key = r.group_key and l.n = 0 and l.full_ns <= ?1 * 1000 and l.not_before <= ?1 and l.held_until is null
      for update skip locked
    ) as locked
  from dibs_rate r force index (saved)
  where r.n = 0 and r.group_key <> '' and r.full_ns <= ?1 * 1000 and r.not_before <= ?1 and r.held_until is null
    and not exists (select 1 from dibs_start s where s.queue = r.queue)
  having locked is not null
  order by r.full_ns
  limit ?2
) x
-- then
delete r
from json_table(@dibs_keys, '$[*]' columns (queue varchar(255) character set utf8mb4 path '$[0]', group_key varchar(512) character set utf8mb4 path '$[1]')) i
straight_join dibs_rate r force index (primary) on r.queue = i.queue and r.group_key = i.group_key
