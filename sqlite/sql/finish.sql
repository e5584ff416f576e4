-- Purpose: copy live jobs that end to the finished ones.
-- Parameters: ?1 a JSON array, ?2 state, ?3 now, ?4 the result of a job without one in its element. An element of the
--   array is the id of a job that ends in the state ?2 and keeps its errors, or an object: id, state, and where they
--   apply cancel, cause, errors (the history as a text) and result (a text). A large result comes as ?4, beside an array of one
--   job: as a part of the array it is encoded, read and copied again.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql) and the
--   deletion after it (remove.sql).
-- A job that was inserted by hand with the id of a finished one ends without a trace.
-- held.sql, this and remove.sql finish all completed jobs of a call at once. With three
--   statements for each job, enqueue, claim and finish took 39 us of CPU instead of 28.
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
  coalesce(l.state, ?2),
  ?3,
  j.priority,
  j.run_at,
  j.attempt,
  j.excused,
  j.max_attempts,
  j.group_key,
  j.unique_key,
  j.unique_until,
  j.worker,
  l.cancel or j.cancel_requested,
  j.created_at,
  j.claimed_at,
  j.metadata,
  j.payload,
  coalesce(l.errors, j.errors),
  coalesce(l.result, ?4),
  j.flow,
  l.cause,
  j.followed
from (
  select
    iif(type = 'object', value ->> 'id', value) as id,
    iif(type = 'object', value ->> 'state', null) as state,
    iif(type = 'object', coalesce(value ->> 'cancel', 0), 0) as cancel,
    iif(type = 'object', value ->> 'cause', null) as cause,
    iif(type = 'object', value ->> 'errors', null) as errors,
    iif(type = 'object', value ->> 'result', null) as result
  from jsonb_each(?1)
) l
cross join dibs_job j on j.id = l.id
where true
on conflict (id) do nothing
