-- Purpose: read what happened in each of the last minutes in some queues, or in all together.
--   Lists are JSON arrays.
-- Parameters: ?1 queues, or only '' for all together; ?2 how many minutes before this one.
-- Columns out: queue; when the minute began; enqueued, claimed, succeeded,
--   failed, died; wait and run times in microseconds. The first row has no queue, and this
--   minute. Others come in no order; a minute may be there twice, to be added up, or not at all.
-- Concurrency: one snapshot, which locks nothing. What fold_history.sql has added to the history
--   is no longer in the tally, so each change is read once.
with wanted (queue) as (
  select distinct q.name
  from json_table(?1, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) q
)
select null as queue, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 * 60000000, 0, 0, 0, 0, 0, 0, 0
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
straight_join dibs_history h force index (primary) on h.queue = w.queue and h.minute >= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2
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
straight_join dibs_tally t force index (by_minute) on t.queue = w.queue and t.minute >= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2
where w.queue <> ''
union all
select
  '',
  t.minute * 60000000,
  sum(t.enqueued),
  sum(t.claimed),
  sum(t.succeeded),
  sum(t.failed),
  sum(t.died),
  least(sum(t.wait_us), 900000000000000000),
  least(sum(t.run_us), 900000000000000000)
from wanted w
straight_join dibs_tally t on t.minute >= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2
where w.queue = ''
group by t.minute
