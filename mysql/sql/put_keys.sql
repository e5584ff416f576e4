-- Purpose: make the rows of unique keys that have none.
-- Parameters: ?1 a JSON array of pairs: queue, unique key.
-- Columns out: none.
-- Concurrency: beside the transaction that needs them, so that nobody waits for its end.
insert ignore into dibs_key (queue, unique_key, check_at)
select i.queue, i.unique_key, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + 60000000
from json_table(?1, '$[*]' columns (queue varchar(255) character set utf8mb4 path '$[0]', unique_key varchar(512) character set utf8mb4 path '$[1]')) i
where not exists (select 1 from dibs_key k where k.queue = i.queue and k.unique_key = i.unique_key)
