-- Purpose: append the sums of rows of counts, one for each queue and minute; old minutes become minute 0, which has no
--   times.
-- Parameters: ?1 a JSON array of ids, ?2 the first minute to keep.
-- Columns out: none.
-- Concurrency: in one transaction with the deletion of these rows (drop_folded.sql). Rows that others append meanwhile are
--   not among them.
declare
  @ids nvarchar(max) = ?1,
  @first bigint = ?2;
insert into dibs_tally (
  queue,
  minute,
  waiting,
  blocked,
  running,
  completed,
  dead,
  cancelled,
  enqueued,
  claimed,
  succeeded,
  failed,
  died,
  wait_us,
  run_us
)
select
  s.queue,
  s.minute,
  s.waiting,
  s.blocked,
  s.running,
  s.completed,
  s.dead,
  s.cancelled,
  case when s.minute = 0 then 0 else s.enqueued end,
  case when s.minute = 0 then 0 else s.claimed end,
  case when s.minute = 0 then 0 else s.succeeded end,
  case when s.minute = 0 then 0 else s.failed end,
  case when s.minute = 0 then 0 else s.died end,
  case when s.minute = 0 then 0 when s.wait_us > 900000000000000000 then 900000000000000000 else s.wait_us end,
  case when s.minute = 0 then 0 when s.run_us > 900000000000000000 then 900000000000000000 else s.run_us end
from (
  select
    t.queue,
    m.minute,
    sum(t.waiting) as waiting,
    sum(t.blocked) as blocked,
    sum(t.running) as running,
    sum(t.completed) as completed,
    sum(t.dead) as dead,
    sum(t.cancelled) as cancelled,
    sum(t.enqueued) as enqueued,
    sum(t.claimed) as claimed,
    sum(t.succeeded) as succeeded,
    sum(t.failed) as failed,
    sum(t.died) as died,
    sum(convert(decimal(38, 0), t.wait_us)) as wait_us,
    sum(convert(decimal(38, 0), t.run_us)) as run_us
  from openjson(@ids) with (id bigint '$') i
  join dibs_tally t with (forceseek) on t.id = i.id
  cross apply (select case when t.minute < @first then 0 else t.minute end) m (minute)
  group by t.queue, m.minute
) s;
