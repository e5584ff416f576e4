-- Purpose: count the blocked jobs of each group of a queue that has any.
-- Parameters: ?1 queue; ?2 name that those of the groups come after; ?3 how many groups;
--   ?4 how many jobs of each are counted.
-- Columns out: group; how many of its jobs hold a place; how many are blocked.
-- Concurrency: one snapshot. It goes from group to group by the index of blocked jobs, whatever
--   their number; locks nothing.
with recursive g (name) as (
  select min(group_key)
  from dibs_job
  where queue = ?1 and gate = 1 and group_key > ?2
  union all
  select (
    select min(b.group_key)
    from dibs_job b
    where b.queue = ?1 and b.gate = 1 and b.group_key > g.name
  )
  from g
  where g.name is not null
  limit ?3
)
select
  g.name,
  (select count(*) from (
    select 1
    from dibs_job p
    where p.queue = ?1 and p.group_key = g.name and p.group_key is not null and p.gate in (0, 3)
    limit ?4
  )),
  (select count(*) from (
    select 1
    from dibs_job b
    where b.queue = ?1 and b.group_key = g.name and b.gate = 1
    limit ?4
  ))
from g
where g.name is not null
