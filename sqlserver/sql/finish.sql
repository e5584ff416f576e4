-- Purpose: copy live jobs that end to the finished ones.
-- Parameters: ?1 a JSON array, ?2 state, ?3 now, ?4 the result of a job without one in its element. An element of the
--   array is the id of a job that ends in the state ?2 and keeps its errors, or an object: id, state, and where they
--   apply cancel, cause, errors (the history as a text) and result (a text). A large result comes as ?4, beside an array of one
--   job: as a part of the array it is encoded, read and copied again.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql) and the
--   deletion after it (remove.sql).
-- A job that was inserted by hand with the id of a finished one ends without a trace.
declare
  @jobs nvarchar(max) = ?1,
  @state varchar(16) = ?2,
  @now bigint = ?3,
  @result nvarchar(max) = ?4;
insert into dibs_finished (
  id,
  queue,
  kind,
  state,
  finished_at,
  priority,
  run_at,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  worker,
  cancel_requested,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors,
  result,
  flow,
  cause,
  followed
)
select
  j.id,
  j.queue,
  j.kind,
  coalesce(l.state, @state),
  @now,
  j.priority,
  j.run_at,
  j.attempt,
  j.excused,
  j.max_attempts,
  j.group_key,
  j.unique_key,
  j.unique_until,
  j.worker,
  case when l.cancel = 1 then 1 else j.cancel_requested end,
  j.created_at,
  j.claimed_at,
  j.metadata,
  j.payload,
  coalesce(l.errors collate Latin1_General_100_BIN2_UTF8, j.errors),
  coalesce(l.result, @result),
  j.flow,
  l.cause,
  j.followed
from openjson(@jobs) v
outer apply openjson(case when v.type = 5 then v.value end) with (
  id bigint '$.id',
  state varchar(16) '$.state',
  cancel bit '$.cancel',
  cause bigint '$.cause',
  errors nvarchar(max) '$.errors',
  result nvarchar(max) '$.result'
) l
join dibs_job j with (rowlock, updlock, forceseek) on j.id = coalesce(l.id, try_convert(bigint, v.value))
where not exists (select 1 from dibs_finished f where f.id = j.id)
option (force order, loop join, maxdop 1);
