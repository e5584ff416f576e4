-- Purpose: delete schedules.
-- Parameters: $1 names; $2 their owner, or null for any; $3 the version
--   that was read, or null for any.
-- Columns out: name of each that is gone.
-- Concurrency: waits for a tick that is under way, and then finds another version.
delete from dibs.schedule
where name = any ($1::text[]) and owner = coalesce($2::text, owner) and version = coalesce($3::bigint, version)
returning name
