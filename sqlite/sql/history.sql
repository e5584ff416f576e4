-- Purpose: read what happened in each of the last minutes in some queues, or in all together.
--   Lists are JSON arrays.
-- Parameters: ?1 queues, or only '' for all together; ?2 how many minutes before this one.
-- Columns out: queue; when the minute began; enqueued, claimed, succeeded,
--   failed, died; wait and run times in microseconds. The first row has no queue, and this
--   minute. Others come in no order; a minute may be there twice, to be added up, or not at all.
-- Concurrency: one snapshot, which locks nothing. What add_history.sql has added to the history
--   is no longer in the tally, so each change is read once.
with recursive clock (now) as materialized (
  select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000) / 60000000
  from dibs_clock
), minute (at) as materialized (
  select now
  from clock
  union all
  select at - 1
  from minute
  where at > (select now - ?2 from clock)
), wanted (queue) as materialized (
  select distinct value
  from json_each(?1)
)
select null, now * 60000000, 0, 0, 0, 0, 0, 0, 0
from clock
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
cross join minute m
cross join dibs_history h on h.minute = m.at and h.queue = w.queue
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
cross join dibs_tally t on t.queue = w.queue and t.minute >= (select now - ?2 from clock)
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
  cast(min(total(t.wait_us), 900000000000000000) as integer),
  cast(min(total(t.run_us), 900000000000000000) as integer)
from wanted w
cross join dibs_tally t on t.minute >= (select now - ?2 from clock)
where w.queue = ''
group by t.minute
