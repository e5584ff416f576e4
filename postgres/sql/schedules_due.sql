-- Purpose: take the schedules whose ticks have come.
-- Parameters: $1 how many at most, $2 names of those to leave to others.
-- Columns out: as schedules.sql.
-- Concurrency: the rows are locked until their jobs and next ticks are committed, in the
--   same transaction. Those that another process has locked are left to it.
select
    statement_timestamp(),
    s.name,
    s.owner,
    s.settings,
    s.payload,
    s.metadata,
    s.paused,
    s.since,
    s.next_at,
    s.last_tick,
    s.last_job,
    s.version
from dibs.schedule s
where s.next_at <= statement_timestamp() and s.name <> all (coalesce($2::text[], array[]::text[]))
order by s.next_at
limit $1
for no key update of s skip locked
