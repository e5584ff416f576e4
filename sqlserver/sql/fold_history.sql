-- Purpose: add what happened in old minutes to the history.
-- Parameters: ?1 a JSON array of ids of rows of counts, ?2 the first minute to keep in the tally, ?3 the first to keep in the history.
-- Columns out: none.
-- Concurrency: in one transaction with the deletion of these rows (drop_folded.sql), so each is added once.
declare
  @ids nvarchar(max) = ?1,
  @first bigint = ?2,
  @kept bigint = ?3;
declare @sums table (
  minute bigint not null,
  queue varbinary(255) not null,
  enqueued bigint not null,
  claimed bigint not null,
  succeeded bigint not null,
  failed bigint not null,
  died bigint not null,
  wait_us decimal(38, 0) not null,
  run_us decimal(38, 0) not null,
  primary key (minute, queue)
);
insert into @sums (minute, queue, enqueued, claimed, succeeded, failed, died, wait_us, run_us)
select
  t.minute,
  n.queue,
  sum(t.enqueued),
  sum(t.claimed),
  sum(t.succeeded),
  sum(t.failed),
  sum(t.died),
  sum(convert(decimal(38, 0), t.wait_us)),
  sum(convert(decimal(38, 0), t.run_us))
from openjson(@ids) with (id bigint '$') i
join dibs_tally t with (forceseek) on t.id = i.id
cross apply (select t.queue union all select 0x) n (queue)
where t.minute > 0 and t.minute < @first and t.minute >= @kept
  and (t.enqueued > 0 or t.claimed > 0 or t.succeeded > 0 or t.failed > 0 or t.died > 0)
group by t.minute, n.queue;
update h
set
  enqueued = h.enqueued + s.enqueued,
  claimed = h.claimed + s.claimed,
  succeeded = h.succeeded + s.succeeded,
  failed = h.failed + s.failed,
  died = h.died + s.died,
  wait_us = case when h.wait_us + s.wait_us > 900000000000000000 then 900000000000000000 else h.wait_us + s.wait_us end,
  run_us = case when h.run_us + s.run_us > 900000000000000000 then 900000000000000000 else h.run_us + s.run_us end
from @sums s
join dibs_history h with (rowlock, updlock, forceseek) on h.minute = s.minute and h.queue = s.queue
option (force order, loop join, maxdop 1);
insert into dibs_history (minute, queue, enqueued, claimed, succeeded, failed, died, wait_us, run_us)
select
  s.minute,
  s.queue,
  s.enqueued,
  s.claimed,
  s.succeeded,
  s.failed,
  s.died,
  case when s.wait_us > 900000000000000000 then 900000000000000000 else s.wait_us end,
  case when s.run_us > 900000000000000000 then 900000000000000000 else s.run_us end
from @sums s
where not exists (select 1 from dibs_history h where h.minute = s.minute and h.queue = s.queue);
