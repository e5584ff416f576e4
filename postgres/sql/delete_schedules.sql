-- Purpose: delete schedules.
-- Parameters: $1 names; $2 their owner, or null for any.
-- Columns out: name of each that is gone.
-- Concurrency: waits for a tick that is under way.
delete from dibs.schedule
where name = any ($1::text[]) and owner = coalesce($2::text, owner)
returning name
