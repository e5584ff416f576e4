-- Purpose: count the blocked jobs of each group of a queue that has any.
-- Parameters: ?1 queue; ?2 name that those of the groups come after; ?3 how many groups;
--   ?4 how many jobs of each are counted.
-- Columns out: group; how many of its jobs hold a place; how many are blocked.
-- Concurrency: one snapshot; locks nothing.
select
  j.group_key,
  least(sum(j.place in (0, 3)), ?4),
  least(sum(j.place = 1), ?4)
from dibs_job j force index (place)
where j.queue = ?1 and j.group_key > ?2
group by j.group_key
having sum(j.place = 1) > 0
order by j.group_key
limit ?3
