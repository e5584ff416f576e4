-- Purpose: note that others come after live jobs.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that then looks whether some of them have ended. It passes over jobs that others have locked:
--   unfollowed.sql finds them.
select json_arrayagg(x.id) into @dibs_ids
from (
  select j.id
  from json_table(?1, '$[*]' columns (id bigint path '$')) i
  straight_join dibs_job j force index (primary) on j.id = i.id
  where j.followed = 0 and exists (select 1 from dibs_edge e where e.parent = j.id and e.stage = 1)
  limit 1000000
  for update skip locked
) x
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set j.followed = 1
