-- Purpose: note of finished jobs whether they are kept because jobs that come after them have not ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that has changed their edges.
select json_arrayagg(f.id) into @dibs_ids
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_finished f force index (primary) on f.id = i.id
where f.followed <> exists (
    select 1
    from dibs_edge e
    where e.parent = f.id and e.stage < 2
  )
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_finished f force index (primary) on f.id = i.id
set f.followed = 1 - f.followed
