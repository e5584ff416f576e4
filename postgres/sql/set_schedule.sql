-- Purpose: store a schedule.
-- Parameters: $1 name, $2 the version of the one that it replaces, or 0 if there is none,
--   $3 owner, $4 settings, $5 payload, $6 metadata or null, $7 paused, $8 since, $9 next tick
--   or null.
-- Columns out: the new version; no row if somebody has changed the schedule since.
-- Concurrency: waits for a tick of the schedule that is under way, and then finds another
--   version. A schedule that was deleted and made again has a version that the old one never had.
with changed as (
    update dibs.schedule
    set
        version = version + 1,
        owner = $3,
        settings = $4,
        payload = $5,
        metadata = $6,
        paused = $7,
        since = $8,
        next_at = $9
    where name = $1 and version = $2::bigint
    returning version
), made as (
    insert into dibs.schedule (name, version, owner, settings, payload, metadata, paused, since, next_at)
    select $1, (date_part('epoch', statement_timestamp()) * 1000000)::bigint, $3, $4, $5, $6, $7, $8, $9
    where $2::bigint = 0
    on conflict (name) do nothing
    returning version
)
select version
from changed
union all
select version
from made
