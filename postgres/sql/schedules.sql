-- Purpose: read all schedules, or some, and the time.
-- Parameters: $1 names, or null for all; $2 the names of those whose payloads and metadata are
--   read, too.
-- Columns out: the time; name, owner, settings, payload, metadata, paused, since, next tick, last tick, last job, ordered
--   by name, with nulls for payloads and metadata that are not read; version or 0. One row without a name if there is none.
-- Concurrency: a plain read. Whoever changes a schedule names the version that was read.
select
    statement_timestamp(),
    s.name,
    s.owner,
    s.settings,
    case when s.name = any ($2::text[]) then s.payload end,
    case when s.name = any ($2::text[]) then s.metadata end,
    s.paused,
    s.since,
    s.next_at,
    s.last_tick,
    s.last_job,
    coalesce(s.version, 0)
from (select) one
left join dibs.schedule s on s.name = any (coalesce($1::text[], array(select name from dibs.schedule)))
order by s.name
