-- Purpose: copy live jobs that end to the finished ones.
-- Parameters: ?1 a JSON array, ?2 state, ?3 now, ?4 the result of a job without one in its element. An element of the
--   array is the id of a job that ends in the state ?2 and keeps its errors, or an object: id, state, and where they
--   apply cancel, cause, errors (the history as a text) and result (a text). A large result comes as ?4, beside an array of one
--   job: as a part of the array it is encoded, read and copied again.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql) and the
--   deletion after it (remove.sql).
-- A job that was inserted by hand with the id of a finished one ends without a trace.
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
  coalesce(l.cancel, 0) or j.cancel_requested,
  j.created_at,
  j.claimed_at,
  j.metadata,
  j.payload,
  coalesce(l.errors, j.errors),
  coalesce(l.result, ?4),
  j.flow,
  l.cause,
  j.followed
from json_table(?1, '$[*]' columns (
  id bigint path '$',
  named bigint path '$.id',
  state varchar(16) character set utf8mb4 path '$.state',
  cancel tinyint path '$.cancel',
  cause bigint path '$.cause',
  errors longtext character set utf8mb4 path '$.errors',
  result longtext character set utf8mb4 path '$.result'
)) l
straight_join dibs_job j force index (primary) on j.id = coalesce(l.named, l.id)
on duplicate key update id = values(id)
