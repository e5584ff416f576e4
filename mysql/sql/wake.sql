-- Purpose: ask for the places of groups to be given anew.
-- Parameters: ?1 a JSON array of pairs: queue, group; ?2 when that is to be done, at the earliest.
-- Columns out: none.
-- Concurrency: appends rows, so it waits for nobody.
insert into dibs_wake (queue, group_key, not_before)
select l.queue, l.group_key, ?2
from json_table(?1, '$[*]' columns (queue varchar(255) character set utf8mb4 path '$[0]', group_key varchar(255) character set utf8mb4 path '$[1]')) l
