-- Purpose: move schedules on to their next ticks.
-- Parameters: arrays of equal length: $1 name, $2 next tick or null, $3 last tick and $4 its
--   job, or nulls if no job was made.
-- Columns out: none.
-- Concurrency: the rows are locked since schedules_due.sql.
update dibs.schedule s
set
    version = s.version + 1,
    next_at = n.next_at,
    last_tick = coalesce(n.tick, s.last_tick),
    last_job = coalesce(n.job, s.last_job)
from unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::bigint[]) as n (name, next_at, tick, job)
where s.name = any (array[n.name])
