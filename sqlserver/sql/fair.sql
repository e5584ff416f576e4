-- Purpose: find the due jobs with turns that a claim takes first from a fair queue.
-- Parameters: ?1 queue, ?2 how many, ?3 now, ?4 a JSON array of kinds or null for all.
-- Columns out: id, turn.
-- Concurrency: it locks the jobs, and passes over those that others have locked; claim_fair.sql looks again at what it takes.
declare
  @queue varbinary(255) = ?1,
  @n int = ?2,
  @now bigint = ?3,
  @kinds nvarchar(max) = ?4;
select top (@n) j.id, j.turn
from dibs_job c with (index (fair), forceseek)
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = c.id
where c.queue = @queue and c.fair = 0 and c.turn is not null
  and j.queue = @queue and j.gate = 0 and j.turn = c.turn and j.admitted = c.admitted and j.run_at <= @now
  and (@kinds is null or j.kind in (select convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) from openjson(@kinds) v))
  and (j.group_key is null or not exists (
    select 1
    from dibs_wake w
    where w.queue = @queue and w.group_key = j.group_key and w.not_before <= @now
  ))
order by c.turn, c.admitted, c.id
option (force order, loop join, maxdop 1);
