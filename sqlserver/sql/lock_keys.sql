-- Purpose: lock unique keys until the transaction ends.
-- Parameters: ?1 a JSON array of pairs: queue, unique key.
-- Columns out: how many it has locked; how many have rows.
-- Concurrency: it locks the rows of the keys, whether or not a job holds them, and passes over those that others have locked.
--   It takes them in the order of the list, which is that of the keys.
declare
  @keys nvarchar(max) = ?1;
declare @pairs table (nth int primary key, queue varbinary(255) not null, unique_key varbinary(512) not null);
insert into @pairs (nth, queue, unique_key)
select convert(int, v.[key]), convert(varbinary(255), convert(varchar(255), p.queue collate Latin1_General_100_BIN2_UTF8)), convert(varbinary(512), convert(varchar(512), p.unique_key collate Latin1_General_100_BIN2_UTF8))
from openjson(@keys) v
cross apply openjson(v.value) with (queue nvarchar(255) '$[0]', unique_key nvarchar(512) '$[1]') p;
declare @locked int;
select @locked = count(*)
from @pairs p
join dibs_key k with (rowlock, updlock, readpast, readcommittedlock, forceseek) on k.queue = p.queue and k.unique_key = p.unique_key
option (force order, loop join, maxdop 1);
select @locked, count(*)
from @pairs p
join dibs_key k with (forceseek) on k.queue = p.queue and k.unique_key = p.unique_key
option (force order, loop join, maxdop 1);
