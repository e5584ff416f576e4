-- Purpose: read what happened in each of the last minutes in some queues, or in all together.
--   Lists are JSON arrays.
-- Parameters: ?1 queues, or only '' for all together; ?2 how many minutes before this one.
-- Columns out: queue; when the minute began; enqueued, claimed, succeeded,
--   failed, died; wait and run times in microseconds. The first row has no queue, and this
--   minute. Others come in no order; a minute may be there twice, to be added up, or not at all.
-- Concurrency: one snapshot, which locks nothing. What fold_history.sql has added to the history
--   is no longer in the tally, so each change is read once.
declare
  @queues nvarchar(max) = ?1,
  @minutes bigint = ?2;
declare @minute bigint = datediff_big(microsecond, '19700101', sysutcdatetime()) / 60000000;
with wanted (queue) as (
  select distinct convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8))
  from openjson(@queues) v
)
select convert(varbinary(255), null) as queue, @minute * 60000000, 0, 0, 0, 0, 0, 0, 0
union all
select
  w.queue,
  h.minute * 60000000,
  h.enqueued,
  h.claimed,
  h.succeeded,
  h.failed,
  h.died,
  h.wait_us,
  h.run_us
from wanted w
join dibs_history h on h.queue = w.queue and h.minute >= @minute - @minutes
union all
select
  w.queue,
  t.minute * 60000000,
  t.enqueued,
  t.claimed,
  t.succeeded,
  t.failed,
  t.died,
  t.wait_us,
  t.run_us
from wanted w
join dibs_tally t on t.queue = w.queue and t.minute >= @minute - @minutes
where w.queue <> 0x
union all
select
  0x,
  t.minute * 60000000,
  sum(t.enqueued),
  sum(t.claimed),
  sum(t.succeeded),
  sum(t.failed),
  sum(t.died),
  convert(bigint, case when sum(convert(decimal(38, 0), t.wait_us)) > 900000000000000000 then 900000000000000000 else sum(convert(decimal(38, 0), t.wait_us)) end),
  convert(bigint, case when sum(convert(decimal(38, 0), t.run_us)) > 900000000000000000 then 900000000000000000 else sum(convert(decimal(38, 0), t.run_us)) end)
from wanted w
join dibs_tally t on t.minute >= @minute - @minutes
where w.queue = 0x
group by t.minute
order by 1;
