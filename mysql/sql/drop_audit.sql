-- Purpose: forget all but the newest changes.
-- Parameters: ?1 how many to keep.
-- Columns out: none.
-- Concurrency: waits for nobody: it passes over entries that others have locked, for they delete them, too.
select json_arrayagg(x.id) into @dibs_ids
from (
  select a.id
  from dibs_audit a force index (primary)
  where a.id <= (select m.last from (select max(id) as last from dibs_audit) m) - ?1
  order by a.id
  limit 1000
  for update skip locked
) x
-- then
delete a
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_audit a force index (primary) on a.id = i.id
