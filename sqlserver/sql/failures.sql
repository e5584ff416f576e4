-- Purpose: list how the dead jobs of some queues have ended. Lists are JSON arrays.
-- Parameters: ?1 names of queues; ?2 how many of each; ?3, ?4 only those that died before this time, or at it if
--   their ids are smaller.
-- Columns out: id, queue, kind, when it died, attempt, the last error without its middle.
-- Concurrency: one snapshot of finished rows; locks nothing. It reads the index of each queue from the
--   newest on, as far as the limit, and no other rows. The rows come in no order.
declare
  @queues nvarchar(max) = ?1,
  @n int = ?2,
  @at bigint = ?3,
  @id bigint = ?4;
select
  d.id,
  d.queue,
  d.kind,
  d.finished_at,
  d.attempt,
  case
    when len(e.error) > 1000 then concat(left(e.error, 600), nchar(8230), right(e.error, 400))
    else coalesce(e.error, N'')
  end
from (
  select distinct convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) as name
  from openjson(@queues) v
) q
cross apply (
  select top (@n) f.id, f.queue, f.kind, f.finished_at, f.attempt, f.errors
  from dibs_finished f with (index (by_time), forceseek)
  where f.queue = q.name and f.state = 'dead' and f.finished_at <= @at and (f.finished_at < @at or f.id < @id)
  order by f.finished_at desc, f.id desc
) d
outer apply (
  select top (1) x.error
  from openjson(case when isjson(d.errors) = 1 then d.errors end) v
  cross apply openjson(case when isjson(v.value) = 1 then v.value end) with (error nvarchar(max) '$.error') x
  order by convert(int, v.[key]) desc
) e;
