-- Purpose: write what the rates of groups, or of a queue, have saved up after starts.
-- Parameters: ?1 a JSON array of [group or an empty text for the queue itself, full_ns (package bucket),
--   when the next job may start]; ?2 queue.
-- Columns out: none.
-- Concurrency: in a turn.
insert into dibs_rate (queue, group_key, full_ns, not_before)
select ?2, i.name, i.full_ns, i.not_before
from json_table(?1, '$[*]' columns (
  name varchar(255) character set utf8mb4 path '$[0]', full_ns bigint path '$[1]', not_before bigint path '$[2]'
)) i
on duplicate key update
  full_ns = values(full_ns),
  not_before = case when group_key = '' then values(not_before) else dibs_rate.not_before end
