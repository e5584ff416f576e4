-- Purpose: make the rows of unique keys that have none.
-- Parameters: ?1 a JSON array of pairs: queue, unique key.
-- Columns out: none.
-- Concurrency: beside the transaction that needs them, so that nobody waits for its end. The primary key ignores a row that
--   another has made meanwhile.
declare
  @keys nvarchar(max) = ?1;
insert into dibs_key (queue, unique_key, check_at)
select i.queue, i.unique_key, datediff_big(microsecond, '19700101', sysutcdatetime()) + 60000000
from (
  select convert(varbinary(255), convert(varchar(255), p.queue collate Latin1_General_100_BIN2_UTF8)) as queue, convert(varbinary(512), convert(varchar(512), p.unique_key collate Latin1_General_100_BIN2_UTF8)) as unique_key
  from openjson(@keys) with (queue nvarchar(255) '$[0]', unique_key nvarchar(512) '$[1]') p
) i
where not exists (select 1 from dibs_key k where k.queue = i.queue and k.unique_key = i.unique_key);
